-- Give cursors back; release is a change of owner, so the epoch rises. Walks the primary key.
UPDATE penstock_cursor SET owner = NULL, epoch = epoch + 1
WHERE group_id = :group_id AND topic_id = :topic_id AND owner = :owner
  AND partition IN (SELECT value FROM json_each(:partitions));
