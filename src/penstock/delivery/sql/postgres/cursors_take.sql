-- Take the cursors that are behind and that nobody in this list of living members owns; a new owner is a new epoch.
-- Locks them in order, passing by those that are locked.
UPDATE penstock_cursor SET owner = %(owner)s, epoch = epoch + 1
WHERE group_id = %(group_id)s AND topic_id = %(topic_id)s AND partition IN (
    SELECT c.partition FROM penstock_cursor c
    JOIN penstock_head h ON h.topic_id = c.topic_id AND h.partition = c.partition AND h.next_offset > c."offset"
    WHERE c.group_id = %(group_id)s AND c.topic_id = %(topic_id)s
      AND (c.owner IS NULL OR c.owner <> ALL(%(living)s::text[]))
    ORDER BY c.partition FOR UPDATE OF c SKIP LOCKED)
RETURNING partition, "offset", epoch;
