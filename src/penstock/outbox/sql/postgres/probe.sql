-- Which of these slots have something to move; one probe of the primary key a slot, and the oldest due rows by
-- ix_penstock_scheduled_due, up to now: the clock is read once, in a subquery, or the whole index would be read.
-- A hint: nothing is locked.
SELECT o.slot FROM unnest(%(slots)s::smallint[]) AS o (slot)
WHERE EXISTS (SELECT 1 FROM penstock_staged s WHERE s.slot = o.slot)
UNION
SELECT due.slot FROM (
    SELECT slot FROM penstock_scheduled
    WHERE due_ms <= (SELECT coalesce(%(now_ms)s::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint))
      AND slot = ANY(%(slots)s::smallint[])
    ORDER BY due_ms, seq LIMIT %(limit)s) AS due;
