-- A page of scheduled events, the next due first, after a place in that order; walks ix_penstock_scheduled_due, locks nothing.
SELECT due_ms, seq, topic, key, owner, type, id FROM penstock_scheduled
WHERE (due_ms, seq) > (%(after_due)s::bigint, %(after_seq)s::bigint)
  AND (%(id)s::text IS NULL OR id = %(id)s::text)
  AND (%(topic)s::text IS NULL OR topic = %(topic)s::text)
  AND (%(key_hash)s::integer IS NULL OR key_hash = %(key_hash)s::integer)
  AND (%(key)s::bytea IS NULL OR key = %(key)s::bytea)
  AND (%(owner)s::text IS NULL OR owner = %(owner)s::text)
  AND (%(before_ms)s::bigint IS NULL OR due_ms < %(before_ms)s::bigint)
ORDER BY due_ms, seq
LIMIT %(limit)s;
