-- Remove the waiting lanes of a deleted topic; reads the table, which holds failures only.
DELETE FROM penstock_lane WHERE topic_id = %(topic_id)s;
