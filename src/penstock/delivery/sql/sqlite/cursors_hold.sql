-- What cursors say; walks the primary key. Nothing to lock: the transaction is the only writer.
SELECT partition, "offset", passed, trying FROM penstock_cursor
WHERE group_id = :group_id AND topic_id = :topic_id AND partition IN (SELECT value FROM json_each(:partitions))
ORDER BY partition;
