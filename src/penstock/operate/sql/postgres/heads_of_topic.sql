-- Where the partitions of a topic begin and end; walks the primary key, locks nothing.
SELECT partition, start_offset, next_offset FROM penstock_head WHERE topic_id = %(topic_id)s;
