-- Remove a topic's name; locks its row, so that a move or append under way has ended before.
DELETE FROM penstock_topic WHERE id = %(topic_id)s;
