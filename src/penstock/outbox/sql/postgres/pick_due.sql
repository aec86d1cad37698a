-- The due rows of these slots, in the order they became due; walks ix_penstock_scheduled_due, up to now: the clock is
-- read once, in a subquery, or the whole index would be read. Locks them, and passes by those that a caller is
-- cancelling, so that neither waits for the other.
SELECT seq, slot, topic, key_hash, timestamp_ms FROM penstock_scheduled
WHERE due_ms <= (SELECT coalesce(%(now_ms)s::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint))
  AND slot = ANY(%(slots)s::smallint[])
ORDER BY due_ms, seq LIMIT %(limit)s
FOR UPDATE SKIP LOCKED;
