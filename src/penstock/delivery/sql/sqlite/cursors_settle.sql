-- Move cursors, each only as its owner in this epoch and only from the version it was left in: a late, stale or repeated
-- settling finds nothing. One that is calm again forgets its crashes. Walks the primary key; what is settled is read from
-- the JSON once (MATERIALIZED), not for each cursor.
WITH s AS MATERIALIZED (
    SELECT json_extract(value, '$[0]') AS number, json_extract(value, '$[1]') AS base,
           json_extract(value, '$[2]') AS passed, json_extract(value, '$[3]') AS calm,
           json_extract(value, '$[4]') AS epoch, json_extract(value, '$[5]') AS version
    FROM json_each(:settled))
UPDATE penstock_cursor AS c
SET "offset" = s.base, passed = s.passed, version = c.version + 1,
    crashes = CASE WHEN s.calm THEN 0 ELSE c.crashes END, trying = CASE WHEN s.calm THEN NULL ELSE c.trying END
FROM s
WHERE c.group_id = :group_id AND c.topic_id = :topic_id AND c.partition = s.number
  AND c.owner = :owner AND c.epoch = s.epoch AND c.version = s.version
RETURNING partition;
