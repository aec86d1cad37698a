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
