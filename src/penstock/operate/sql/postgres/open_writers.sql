-- The open transactions that may have staged something: who, for how long, and since when its last statement; reads the
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
ORDER BY 4 DESC NULLS LAST, 1;
