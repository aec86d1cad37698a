-- Let a paused group go on; walks the primary key, locks the row.
UPDATE penstock_group SET paused_ms = NULL WHERE id = %(group_id)s AND paused_ms IS NOT NULL;
