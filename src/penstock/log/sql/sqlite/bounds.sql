-- The first offset kept and the next to be given; walks the primary key.
SELECT start_offset, next_offset FROM penstock_head WHERE topic_id = :topic_id AND partition = :partition;
