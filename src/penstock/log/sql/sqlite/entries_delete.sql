-- Remove the lane entries of a deleted topic; reads the table, which holds failures only.
DELETE FROM penstock_lane_entry WHERE topic_id = :topic_id;
