-- How many lanes of groups wait by themselves, and how many for a person; walks the primary key.
SELECT group_id, topic_id, sum(CASE WHEN held THEN 0 ELSE 1 END), sum(CASE WHEN held THEN 1 ELSE 0 END)
FROM penstock_lane
WHERE group_id IN (SELECT value FROM json_each(:groups))
GROUP BY group_id, topic_id;
