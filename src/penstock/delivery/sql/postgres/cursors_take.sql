-- Take the cursors that have work (records behind them, or a lane that is due) and that nobody in this list of living
-- members owns. A new owner is a new epoch; one that did not release is counted as a crash. Walks the primary keys; locks
-- in order, passing by what is locked.
-- As an array: the subquery of an IN may be run anew, locks and all, for each row of the table.
UPDATE penstock_cursor
SET owner = %(owner)s, epoch = epoch + 1, crashes = crashes + CASE WHEN owner IS NULL THEN 0 ELSE 1 END
WHERE group_id = %(group_id)s AND topic_id = %(topic_id)s AND partition = ANY(ARRAY(
    SELECT c.partition FROM penstock_cursor c
    JOIN penstock_head h ON h.topic_id = c.topic_id AND h.partition = c.partition
    WHERE c.group_id = %(group_id)s AND c.topic_id = %(topic_id)s
      AND (c.owner IS NULL OR c.owner <> ALL(%(living)s::text[]))
      AND (h.next_offset > c."offset" OR EXISTS (
            SELECT 1 FROM penstock_lane l
            WHERE l.group_id = c.group_id AND l.topic_id = c.topic_id AND l.partition = c.partition
              AND NOT l.held AND l.due_ms <= (SELECT coalesce(%(now_ms)s::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint))))
    ORDER BY c.partition FOR UPDATE OF c SKIP LOCKED))
RETURNING partition, "offset", epoch, version, passed, crashes, trying;
