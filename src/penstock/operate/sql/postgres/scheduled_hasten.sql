-- Make a scheduled event due now; walks ix_penstock_scheduled_id, locks that row. A move that has locked it first wins:
-- this waits for its end and finds nothing.
UPDATE penstock_scheduled SET due_ms = coalesce(%(now_ms)s::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) WHERE id = %(id)s;
