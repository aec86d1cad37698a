-- The first offset kept and the next to be given; walks the primary key, locks nothing.
SELECT start_offset, next_offset FROM penstock_head WHERE topic_id = %(topic_id)s AND partition = %(partition)s;
