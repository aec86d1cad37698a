-- The statements of this room for every engine, in the neutral SQL that log/sql/statements.py describes. Locks are for
-- engines with many writers: in SQLite a transaction that writes is the only one.

-- name: next_due
-- The next moment after now at which something is due: an event that is scheduled, or a lane that waits for its retry.
-- Walks ix_penstock_scheduled_due and all lanes, locks nothing.
SELECT min(due_ms) FROM (
    SELECT min(due_ms) AS due_ms FROM penstock_scheduled WHERE due_ms > :now_ms::bigint
    UNION ALL
    SELECT min(due_ms) FROM penstock_lane WHERE NOT held AND due_ms > :now_ms::bigint
) AS waiting;

-- name: scheduled_list
-- All that is scheduled, by when it is due; walks ix_penstock_scheduled_due, locks nothing.
SELECT due_ms, topic, id, key, type, value, headers, timestamp_ms FROM penstock_scheduled ORDER BY due_ms, seq;

-- name: staged_list
-- All that is staged, in the order of staging; walks the whole table, locks nothing.
SELECT topic, id, key, type, value, headers, timestamp_ms FROM penstock_staged ORDER BY seq;
