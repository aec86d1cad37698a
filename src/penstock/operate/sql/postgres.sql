-- The statements for PostgreSQL, with its system tables of locks and sessions.

-- name: open_lockers
-- Other clients' open transactions with locks on these tables, which only our own transactions should lock: the client, its
-- age, and the time of its last statement; reads the server's system tables, locks nothing. Vacuum is left out: it neither
-- waits nor blocks.
SELECT l.pid, coalesce(a.application_name, ''), coalesce(a.state, ''),
       floor(extract(epoch FROM clock_timestamp() - coalesce(a.xact_start, p.prepared)) * 1000)::bigint,
       floor(extract(epoch FROM a.query_start) * 1000)::bigint, p.gid
FROM (
    SELECT DISTINCT pid, virtualtransaction FROM pg_locks
    WHERE locktype = 'relation' AND granted AND mode NOT IN ('AccessShareLock', 'ShareUpdateExclusiveLock')
      AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
      AND relation = ANY (ARRAY(SELECT to_regclass(t.name)::oid FROM unnest(:tables::text[]) AS t (name)))) AS l
LEFT JOIN pg_stat_activity a ON a.pid = l.pid
LEFT JOIN pg_prepared_xacts p ON l.virtualtransaction = '-1/' || p.transaction::text
WHERE coalesce(a.application_name, '') <> 'penstock'
ORDER BY coalesce(a.xact_start, p.prepared) NULLS LAST;

-- == Groups and their cursors

-- name: groups_on_partition
-- The groups on a partition and their positions; walks the groups, and the primary key of cursors for each, locks nothing.
SELECT g.id, g.name, g.created_ms, g.filters, g.paused_ms, g.seen_ms,
       c."offset", c.passed, c.owner, c.crashes, c.trial
FROM penstock_group g
CROSS JOIN LATERAL (
    SELECT * FROM penstock_cursor r
    WHERE r.group_id = g.id AND r.topic_id = :topic_id AND r.partition = :partition LIMIT 1) AS c
WHERE :group_id::integer IS NULL OR g.id = :group_id::integer
ORDER BY g.name;

-- == Events that are not in the log yet

-- name: staged_page
-- A page of staged events, by slot and then in the order of staging; walks the primary key, locks nothing.
SELECT slot, seq, topic, id, key, type, timestamp_ms FROM penstock_staged
WHERE (slot, seq) > (:after_slot::integer, :after_seq::bigint)
  AND (:topic::text IS NULL OR topic = :topic::text)
ORDER BY slot, seq
LIMIT :limit;

-- name: staged_by_key
-- The oldest staged event of a key; walks the primary key of one slot, up to a limit of rows, locks nothing.
SELECT topic, id, key, type, timestamp_ms, slot, NULL::bigint FROM (
    SELECT * FROM penstock_staged WHERE slot = :slot ORDER BY seq LIMIT :walk) AS s
WHERE key_hash = :key_hash AND key = :key AND (:topic::text IS NULL OR topic = :topic::text)
ORDER BY seq LIMIT 1;

-- name: open_writers
-- The open transactions that may have staged events: their session, age, and the start of the last statement; reads the
-- server's own tables, locks nothing.
SELECT l.pid, coalesce(a.application_name, ''), coalesce(a.state, ''),
       floor(extract(epoch FROM clock_timestamp() - coalesce(a.xact_start, p.prepared)) * 1000)::bigint,
       floor(extract(epoch FROM a.query_start) * 1000)::bigint, p.gid
FROM (
    SELECT DISTINCT pid, virtualtransaction FROM pg_locks
    WHERE locktype = 'relation' AND granted AND mode = 'RowExclusiveLock'
      AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
      AND relation = ANY (ARRAY['penstock_staged'::regclass::oid, 'penstock_scheduled'::regclass::oid])) AS l
LEFT JOIN pg_stat_activity a ON a.pid = l.pid
LEFT JOIN pg_prepared_xacts p ON l.virtualtransaction = '-1/' || p.transaction::text
ORDER BY coalesce(a.xact_start, p.prepared) NULLS LAST, 1;
