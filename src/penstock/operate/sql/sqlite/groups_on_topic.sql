-- The groups that have a cursor on a topic; walks the cursors.
SELECT DISTINCT g.id, g.name FROM penstock_cursor c JOIN penstock_group g ON g.id = c.group_id
WHERE c.topic_id = :topic_id ORDER BY g.name;
