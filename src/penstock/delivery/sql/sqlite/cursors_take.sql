-- Take the cursors that are behind and that nobody in this list of living members owns; a new owner is a new epoch.
UPDATE penstock_cursor AS c SET owner = :owner, epoch = c.epoch + 1
FROM penstock_head h
WHERE c.group_id = :group_id AND c.topic_id = :topic_id
  AND h.topic_id = c.topic_id AND h.partition = c.partition AND h.next_offset > c."offset"
  AND (c.owner IS NULL OR c.owner NOT IN (SELECT value FROM json_each(:living)))
RETURNING partition, "offset", epoch;
