-- Make a group's cursors. From the start: in partitions that hold something. From the end: in all of them, once, when
-- the group is new on the topic; so that a partition that was empty then is read from its first record. Walks the heads.
INSERT INTO penstock_cursor (group_id, topic_id, partition, "offset")
SELECT :group_id, h.topic_id, h.partition, CASE WHEN :from_start THEN h.start_offset ELSE h.next_offset END
FROM penstock_head h
WHERE h.topic_id = :topic_id
  AND CASE WHEN :from_start THEN h.next_offset > 0
      ELSE NOT EXISTS (SELECT 1 FROM penstock_cursor c WHERE c.group_id = :group_id AND c.topic_id = :topic_id) END
ON CONFLICT DO NOTHING;
