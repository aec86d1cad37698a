-- The first offset kept of each partition of a topic (see ask.sql); walks the primary key, locks nothing.
SELECT partition, start_offset FROM penstock_head WHERE topic_id = current_setting('penstock.topic_id')::integer;
