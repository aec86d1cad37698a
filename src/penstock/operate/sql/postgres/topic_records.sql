-- How many offsets a topic keeps; walks the primary key.
SELECT coalesce(sum(next_offset - start_offset), 0) FROM penstock_head WHERE topic_id = %(topic_id)s;
