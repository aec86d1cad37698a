-- Make a group's cursors on a topic, in every partition, when the group is new there: at the start of what is kept, or at
-- the end. Walks the heads and the primary key.
INSERT INTO penstock_cursor (group_id, topic_id, partition, "offset")
SELECT %(group_id)s, h.topic_id, h.partition, CASE WHEN %(from_start)s THEN h.start_offset ELSE h.next_offset END
FROM penstock_head h WHERE h.topic_id = %(topic_id)s
ON CONFLICT DO NOTHING;
