-- Take the cursors that were meant for this member and that nobody in this list of living members owns. A new owner is a
-- new epoch; one that did not release is counted as a crash. Walks the primary key; locks in order, passing by what is
-- locked.
-- As an array: the subquery of an IN may be run anew, locks and all, for each row of the table.
UPDATE penstock_cursor
SET owner = %(owner)s, epoch = epoch + 1, crashes = crashes + CASE WHEN owner IS NULL THEN 0 ELSE 1 END
WHERE group_id = %(group_id)s AND topic_id = %(topic_id)s AND partition = ANY(ARRAY(
    SELECT partition FROM penstock_cursor
    WHERE group_id = %(group_id)s AND topic_id = %(topic_id)s AND owner_wanted = %(owner)s
      AND (owner IS NULL OR owner <> ALL(%(living)s::text[]))
    ORDER BY partition FOR UPDATE SKIP LOCKED))
RETURNING partition, "offset", epoch, version, passed, crashes, trying;
