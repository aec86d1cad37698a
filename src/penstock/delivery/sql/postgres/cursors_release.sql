-- Give cursors back; release is a change of owner, so the epoch rises. Walks the primary key, locks the rows in order.
-- As an array: the subquery of an IN may be run anew, locks and all, for each row of the table.
UPDATE penstock_cursor SET owner = NULL, epoch = epoch + 1
WHERE group_id = %(group_id)s AND topic_id = %(topic_id)s AND partition = ANY(ARRAY(
    SELECT partition FROM penstock_cursor
    WHERE group_id = %(group_id)s AND topic_id = %(topic_id)s AND owner = %(owner)s
      AND partition = ANY(%(partitions)s::integer[])
    ORDER BY partition FOR UPDATE));
