-- Let cursors be taken afresh: the epoch rises, so that nothing their owner still settles is written. One that lives has
-- not crashed, so it is no longer the owner; one that does not stays, and is counted by whoever takes over. `anew`: the
-- record that was tried is to be tried from the beginning. Walks the primary key.
UPDATE penstock_cursor AS c
SET epoch = c.epoch + 1,
    owner = CASE WHEN c.owner IN (SELECT value FROM json_each(:living)) THEN NULL ELSE c.owner END,
    trying = CASE WHEN json_extract(s.value, '$[1]') THEN NULL ELSE c.trying END,
    crashes = CASE WHEN json_extract(s.value, '$[1]') THEN min(c.crashes, 1) ELSE c.crashes END
FROM json_each(:seized) s
WHERE c.group_id = :group_id AND c.topic_id = :topic_id AND c.partition = json_extract(s.value, '$[0]');
