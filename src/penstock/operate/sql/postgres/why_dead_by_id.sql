-- A record that some group gave up, by its id; reads the dead letters, locks nothing.
SELECT topic_id, partition, "offset", id, key, type, timestamp_ms FROM penstock_dead
WHERE id = %(id)s AND (%(topic_id)s::integer IS NULL OR topic_id = %(topic_id)s::integer) LIMIT 1;
