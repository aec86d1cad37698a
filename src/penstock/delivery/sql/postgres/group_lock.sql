-- Wait for the turn to take a group's cursors; locks its row, so that each taker sees what the one before it took. And the
-- filters of its handlers, the present one first, and since when it is paused.
SELECT id, filters, filter_version, paused_ms FROM penstock_group WHERE id = %(group_id)s FOR UPDATE;
