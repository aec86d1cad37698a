-- Remove a topic's time marks; walks the primary key.
DELETE FROM penstock_log_time WHERE topic_id = %(topic_id)s;
