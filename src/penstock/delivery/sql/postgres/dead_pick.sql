-- The places of a group's dead letters, in the order of the log, after one of them; walks the primary key, locks nothing:
-- a hint, to be looked at again under the cursors' locks.
SELECT topic_id, partition, "offset", holding FROM penstock_dead
WHERE group_id = %(group_id)s
  AND (topic_id, partition, "offset") > (%(after_topic)s::bigint, %(after_partition)s::bigint, %(after_offset)s::bigint)
  AND (%(topic_id)s::integer IS NULL OR topic_id = %(topic_id)s::integer)
  AND (%(id)s::text IS NULL OR id = %(id)s::text)
  AND (%(key)s::bytea IS NULL OR key = %(key)s::bytea)
  AND (%(type)s::text IS NULL OR type = %(type)s::text)
  AND (%(since_ms)s::bigint IS NULL OR died_ms >= %(since_ms)s::bigint)
  AND (%(before_ms)s::bigint IS NULL OR died_ms < %(before_ms)s::bigint)
ORDER BY topic_id, partition, "offset"
LIMIT %(limit)s;
