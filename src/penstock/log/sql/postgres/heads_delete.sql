-- Remove a topic's heads; walks the primary key.
DELETE FROM penstock_head WHERE topic_id = %(topic_id)s;
