-- Take the cursors that have work (records behind them, or a lane that is due) and that nobody in this list of living
-- members owns. A new owner is a new epoch; one that did not release is counted as a crash. Walks the primary keys.
UPDATE penstock_cursor AS c
SET owner = :owner, epoch = c.epoch + 1, crashes = c.crashes + CASE WHEN c.owner IS NULL THEN 0 ELSE 1 END
FROM penstock_head h
WHERE c.group_id = :group_id AND c.topic_id = :topic_id AND h.topic_id = c.topic_id AND h.partition = c.partition
  AND (c.owner IS NULL OR c.owner NOT IN (SELECT value FROM json_each(:living)))
  AND (h.next_offset > c."offset" OR EXISTS (
        SELECT 1 FROM penstock_lane l
        WHERE l.group_id = c.group_id AND l.topic_id = c.topic_id AND l.partition = c.partition
          AND NOT l.held AND l.due_ms <= coalesce(:now_ms, CAST((julianday('now') - 2440587.5) * 86400000.0 AS INTEGER))))
RETURNING partition, "offset", epoch, version, passed, crashes, trying;
