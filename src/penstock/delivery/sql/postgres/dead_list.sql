-- A page of dead letters, the newest first, after a place in that order; walks ix_penstock_dead_died backwards, locks
-- nothing.
SELECT d.died_ms, d.group_id, d.topic_id, d.partition, d."offset", g.name, t.name, d.id, d.key, d.type, d.failures,
       d.reason, d.holding, d.reset_ms, d.timestamp_ms
FROM penstock_dead d
JOIN penstock_group g ON g.id = d.group_id
JOIN penstock_topic t ON t.id = d.topic_id
WHERE (d.died_ms, d.group_id, d.topic_id, d.partition, d."offset")
      < (%(died_ms)s::bigint, %(after_group)s::bigint, %(after_topic)s::bigint, %(after_partition)s::bigint, %(after_offset)s::bigint)
  AND (%(group_id)s::integer IS NULL OR d.group_id = %(group_id)s::integer)
  AND (%(topic_id)s::integer IS NULL OR d.topic_id = %(topic_id)s::integer)
  AND (%(id)s::text IS NULL OR d.id = %(id)s::text)
  AND (%(key)s::bytea IS NULL OR d.key = %(key)s::bytea)
  AND (%(type)s::text IS NULL OR d.type = %(type)s::text)
  AND (%(since_ms)s::bigint IS NULL OR d.died_ms >= %(since_ms)s::bigint)
  AND (%(before_ms)s::bigint IS NULL OR d.died_ms < %(before_ms)s::bigint)
ORDER BY d.died_ms DESC, d.group_id DESC, d.topic_id DESC, d.partition DESC, d."offset" DESC
LIMIT %(limit)s;
