-- Let each partition of a topic begin where it ends; walks the primary key. The heads are locked already.
UPDATE penstock_head SET start_offset = next_offset WHERE topic_id = %(topic_id)s;
