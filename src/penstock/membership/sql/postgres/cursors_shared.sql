-- Who owns each partition of groups on topics, and who should; walks the primary key, locks nothing.
SELECT c.group_id, c.topic_id, c.partition, c.owner, c.owner_wanted
FROM unnest(%(groups)s::integer[], %(topics)s::integer[]) AS s (group_id, topic_id)
JOIN penstock_cursor c ON c.group_id = s.group_id AND c.topic_id = s.topic_id
ORDER BY c.group_id, c.topic_id, c.partition;
