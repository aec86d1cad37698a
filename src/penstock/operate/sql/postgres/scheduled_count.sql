-- How many scheduled events match; reads the table or one of its indexes, locks nothing.
SELECT count(*) FROM penstock_scheduled
WHERE (%(id)s::text IS NULL OR id = %(id)s::text)
  AND (%(topic)s::text IS NULL OR topic = %(topic)s::text)
  AND (%(key_hash)s::integer IS NULL OR key_hash = %(key_hash)s::integer)
  AND (%(key)s::bytea IS NULL OR key = %(key)s::bytea)
  AND (%(owner)s::text IS NULL OR owner = %(owner)s::text)
  AND (%(before_ms)s::bigint IS NULL OR due_ms < %(before_ms)s::bigint);
