-- The first offset kept of each partition of a topic (?1); walks the primary key.
SELECT partition, start_offset FROM penstock_head WHERE topic_id = ?1;
