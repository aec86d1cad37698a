-- How many dead letters groups have; walks the primary key.
SELECT group_id, topic_id, count(*) FROM penstock_dead
WHERE group_id IN (SELECT value FROM json_each(:groups))
GROUP BY group_id, topic_id;
