-- The cursors of some partitions of groups; walks the primary key. Nothing to lock: the transaction is the only writer.
SELECT c.group_id, c.partition
FROM json_each(:cursors) w
CROSS JOIN penstock_cursor c ON c.group_id = json_extract(w.value, '$[0]') AND c.topic_id = :topic_id
 AND c.partition = json_extract(w.value, '$[1]');
