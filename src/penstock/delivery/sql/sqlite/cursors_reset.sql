-- Set cursors, in a new epoch and version, so that nothing their owner still settles is written. One that lives has not
-- crashed, so it is no longer the owner; one that does not stays, and is counted by whoever takes over. What was tried
-- begins anew. Walks the primary key.
WITH w AS MATERIALIZED (
    SELECT json_extract(value, '$[0]') AS number, json_extract(value, '$[1]') AS place FROM json_each(:targets))
UPDATE penstock_cursor AS c
SET "offset" = w.place, passed = '', epoch = c.epoch + 1, version = c.version + 1, trying = NULL,
    crashes = min(c.crashes, 1),
    owner = CASE WHEN c.owner IN (SELECT value FROM json_each(:living)) THEN NULL ELSE c.owner END
FROM w
WHERE c.group_id = :group_id AND c.topic_id = :topic_id AND c.partition = w.number;
