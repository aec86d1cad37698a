-- How many dead letters groups have; walks the primary key.
SELECT group_id, topic_id, count(*) FROM penstock_dead
WHERE group_id = ANY(%(groups)s::integer[])
GROUP BY group_id, topic_id;
