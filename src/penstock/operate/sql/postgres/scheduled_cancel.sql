-- Take some scheduled events back, the next due first; walks ix_penstock_scheduled_due, locks the rows and passes by those
-- that a sequencer is moving or a caller is cancelling, so that neither waits for the other.
DELETE FROM penstock_scheduled WHERE seq = ANY(ARRAY(
    SELECT seq FROM penstock_scheduled
    WHERE (%(id)s::text IS NULL OR id = %(id)s::text)
      AND (%(topic)s::text IS NULL OR topic = %(topic)s::text)
      AND (%(key_hash)s::integer IS NULL OR key_hash = %(key_hash)s::integer)
      AND (%(key)s::bytea IS NULL OR key = %(key)s::bytea)
      AND (%(owner)s::text IS NULL OR owner = %(owner)s::text)
      AND (%(before_ms)s::bigint IS NULL OR due_ms < %(before_ms)s::bigint)
    ORDER BY due_ms, seq LIMIT %(limit)s FOR UPDATE SKIP LOCKED));
