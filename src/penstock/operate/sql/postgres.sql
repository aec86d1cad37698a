-- What PostgreSQL is told in its own way: locks in an order, LATERAL, and several steps in one statement.

-- == Topics

-- name: log_clear
-- Remove some of the records of a topic that lie before its partitions begin; walks the primary keys, once for each
-- partition, locks the rows.
DELETE FROM penstock_log WHERE ctid = ANY(ARRAY(
    SELECT l.ctid FROM penstock_head h
    CROSS JOIN LATERAL (
        SELECT r.ctid FROM penstock_log r
        WHERE r.topic_id = h.topic_id AND r.partition = h.partition AND r."offset" < h.start_offset
        ORDER BY r."offset" LIMIT :limit) AS l
    WHERE h.topic_id = :topic_id LIMIT :limit));

-- == Events

-- name: events_logged
-- A page of the log by topic, partition and offset: what some group has yet to pass (pending), or what every group has
-- passed, and none has waiting or dead. Walks the heads and for each, once (LATERAL, LIMIT), the log's primary key; locks
-- nothing.
SELECT l.topic_id, l.partition, l."offset", t.name, l.id, l.key, l.type, l.timestamp_ms
FROM (
    SELECT h.topic_id, h.partition, h.start_offset, h.next_offset,
           greatest(h.start_offset, (
               SELECT min(c."offset") FROM penstock_group g
               JOIN penstock_cursor c ON c.group_id = g.id AND c.topic_id = h.topic_id AND c.partition = h.partition)) AS passed
    FROM penstock_head h
    WHERE h.start_offset < h.next_offset
      AND (h.topic_id, h.partition) >= (:after_topic::integer, :after_partition::integer)
      AND (:topic_id::integer IS NULL OR h.topic_id = :topic_id::integer)) AS h
JOIN penstock_topic t ON t.id = h.topic_id
CROSS JOIN LATERAL (
    SELECT r.* FROM penstock_log r
    WHERE r.topic_id = h.topic_id AND r.partition = h.partition
      AND r."offset" >= CASE WHEN :pending THEN h.passed ELSE h.start_offset END
      AND r."offset" < CASE WHEN :pending THEN h.next_offset ELSE h.passed END
      AND (r.topic_id, r.partition, r."offset")
          > (:after_topic::integer, :after_partition::integer, :after_offset::bigint)
      AND (:pending OR NOT EXISTS (
          SELECT 1 FROM penstock_group g
          LEFT JOIN penstock_lane_entry e ON e.group_id = g.id AND e.topic_id = r.topic_id
           AND e.partition = r.partition AND e."offset" = r."offset"
          LEFT JOIN penstock_dead d ON d.group_id = g.id AND d.topic_id = r.topic_id
           AND d.partition = r.partition AND d."offset" = r."offset"
          WHERE e."offset" IS NOT NULL OR d."offset" IS NOT NULL))
    ORDER BY r."offset" LIMIT :limit) AS l
ORDER BY l.topic_id, l.partition, l."offset"
LIMIT :limit;

-- name: events_staged
-- A page of staged events, by slot and then in the order of staging; walks the primary key, locks nothing.
SELECT slot, seq, topic, id, key, type, timestamp_ms FROM penstock_staged
WHERE (slot, seq) > (:after_slot::integer, :after_seq::bigint)
  AND (:topic::text IS NULL OR topic = :topic::text)
ORDER BY slot, seq
LIMIT :limit;

-- name: open_writers
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

-- == Why a record is where it is

-- name: why_groups
-- The groups on a partition and where they are; walks the groups, and the primary key of cursors for each, locks nothing.
SELECT g.id, g.name, g.created_ms, g.filters, g.paused_ms, g.seen_ms,
       c."offset", c.passed, c.owner, c.crashes, c.trying
FROM penstock_group g
CROSS JOIN LATERAL (
    SELECT * FROM penstock_cursor r
    WHERE r.group_id = g.id AND r.topic_id = :topic_id AND r.partition = :partition LIMIT 1) AS c
WHERE :group_id::integer IS NULL OR g.id = :group_id::integer
ORDER BY g.name;

-- name: why_lanes
-- The lane of a key in a partition, and those of records of it that are retried alone; walks the primary key, locks nothing.
SELECT lane, held, failures, due_ms, reason FROM penstock_lane
WHERE group_id = :group_id AND topic_id = :topic_id AND partition = :partition
  AND (lane = :lane::text OR (lane ~ '^#[0-9]+#' AND substr(lane, strpos(substr(lane, 2), '#') + 2) = :lane::text))
ORDER BY lane;

-- name: why_log_by_id
-- A record by its id within a range of offsets of some partitions; walks the primary key once for each range, locks nothing.
SELECT l.partition, l."offset", l.id, l.key, l.type, l.timestamp_ms
FROM rows(:ranges, partition integer, low bigint, high bigint) AS w
CROSS JOIN LATERAL (
    SELECT r.* FROM penstock_log r
    WHERE r.topic_id = :topic_id AND r.partition = w.partition AND r."offset" >= w.low AND r."offset" < w.high
      AND r.id = :id
    ORDER BY r."offset" LIMIT 1) AS l
LIMIT 1;

-- name: why_staged_by_key
-- The oldest staged event of a key; walks the primary key of one slot, up to so many rows, locks nothing.
SELECT topic, id, key, type, timestamp_ms, slot, NULL::bigint FROM (
    SELECT * FROM penstock_staged WHERE slot = :slot ORDER BY seq LIMIT :walk) AS s
WHERE key_hash = :key_hash AND key = :key AND (:topic::text IS NULL OR topic = :topic::text)
ORDER BY seq LIMIT 1;
