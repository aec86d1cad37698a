-- A page of waiting lanes, by group, topic, partition and lane, after one of them; with `lane` those of one key, also where
-- a record of it is retried alone. Walks the primary key, locks nothing.
SELECT l.group_id, l.topic_id, l.partition, l.lane, g.name, t.name, l.held, l.failures, l.due_ms, l.reason
FROM penstock_lane l
JOIN penstock_group g ON g.id = l.group_id
JOIN penstock_topic t ON t.id = l.topic_id
WHERE (l.group_id, l.topic_id, l.partition, l.lane)
      > (%(after_group)s::bigint, %(after_topic)s::bigint, %(after_partition)s::bigint, %(after_lane)s::text)
  AND (%(group_id)s::integer IS NULL OR l.group_id = %(group_id)s::integer)
  AND (%(topic_id)s::integer IS NULL OR l.topic_id = %(topic_id)s::integer)
  AND (%(held)s::boolean IS NULL OR l.held = %(held)s::boolean)
  AND (%(lane)s::text IS NULL OR l.lane = %(lane)s::text
       OR (l.lane ~ '^#[0-9]+#' AND substr(l.lane, strpos(substr(l.lane, 2), '#') + 2) = %(lane)s::text))
ORDER BY l.group_id, l.topic_id, l.partition, l.lane
LIMIT %(limit)s;
