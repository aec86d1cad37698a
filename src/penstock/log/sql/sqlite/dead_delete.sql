-- Remove the dead letters of a deleted topic; reads the table, which holds failures only.
DELETE FROM penstock_dead WHERE topic_id = :topic_id;
