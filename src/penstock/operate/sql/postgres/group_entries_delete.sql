-- Remove the lane entries of a group; walks the primary key, locks the rows.
DELETE FROM penstock_lane_entry WHERE group_id = %(group_id)s;
