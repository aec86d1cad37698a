-- Move cursors, each only as its owner in this epoch and only from the version it was left in: a late, stale or repeated
-- settling finds nothing. One that is calm again forgets its crashes. Walks the primary key.
UPDATE penstock_cursor AS c
SET "offset" = json_extract(s.value, '$[1]'), passed = json_extract(s.value, '$[2]'), version = c.version + 1,
    crashes = CASE WHEN json_extract(s.value, '$[3]') THEN 0 ELSE c.crashes END,
    trying = CASE WHEN json_extract(s.value, '$[3]') THEN NULL ELSE c.trying END
FROM json_each(:settled) s
WHERE c.group_id = :group_id AND c.topic_id = :topic_id AND c.partition = json_extract(s.value, '$[0]')
  AND c.owner = :owner AND c.epoch = json_extract(s.value, '$[4]') AND c.version = json_extract(s.value, '$[5]')
RETURNING partition;
