-- The groups that have cursors on some topics; reads the cursors.
SELECT DISTINCT c.topic_id, g.name FROM penstock_cursor c JOIN penstock_group g ON g.id = c.group_id
WHERE c.topic_id = ANY(%(topics)s::integer[])
ORDER BY c.topic_id, g.name;
