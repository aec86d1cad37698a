-- One dead letter with all it holds; walks the primary key.
SELECT d.died_ms, d.group_id, d.topic_id, d.partition, d."offset", g.name, t.name, d.id, d.key, d.type, d.failures,
       d.reason, d.holding, d.reset_ms, d.value, d.headers, d.timestamp_ms
FROM penstock_dead d
JOIN penstock_group g ON g.id = d.group_id
JOIN penstock_topic t ON t.id = d.topic_id
WHERE d.group_id = :group_id AND d.topic_id = :topic_id AND d.partition = :partition AND d."offset" = :offset;
