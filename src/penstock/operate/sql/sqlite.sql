-- What SQLite is told in its own way: it has one writer and so no locks, and CROSS JOIN keeps it to an order of tables.

-- == Topics

-- name: log_clear
-- Remove some of the records of a topic that lie before its partitions begin; walks the primary keys: the cross join
-- keeps SQLite from walking the whole log.
DELETE FROM penstock_log WHERE rowid IN (
    SELECT l.rowid FROM penstock_head h
    CROSS JOIN penstock_log l ON l.topic_id = h.topic_id AND l.partition = h.partition AND l."offset" < h.start_offset
    WHERE h.topic_id = :topic_id LIMIT :limit);

-- == Events

-- name: events_logged
-- A page of the log by topic, partition and offset: what some group has yet to pass (pending), or what every group has
-- passed, and none has waiting or dead. Walks the heads and for each the log's primary key (cross joins).
WITH heads AS MATERIALIZED (
    SELECT h.topic_id, h.partition, h.start_offset, h.next_offset,
           max(h.start_offset, coalesce((
               SELECT min(c."offset") FROM penstock_group g
               CROSS JOIN penstock_cursor c
               WHERE c.group_id = g.id AND c.topic_id = h.topic_id AND c.partition = h.partition), h.start_offset)) AS passed
    FROM penstock_head h
    WHERE h.start_offset < h.next_offset AND (h.topic_id, h.partition) >= (:after_topic, :after_partition)
      AND (:topic_id IS NULL OR h.topic_id = :topic_id)
    ORDER BY h.topic_id, h.partition
)
SELECT r.topic_id, r.partition, r."offset", t.name, r.id, r.key, r.type, r.timestamp_ms
FROM heads h
CROSS JOIN penstock_topic t
CROSS JOIN penstock_log r
WHERE t.id = h.topic_id AND r.topic_id = h.topic_id AND r.partition = h.partition
  AND r."offset" >= CASE WHEN :pending THEN h.passed ELSE h.start_offset END
  AND r."offset" < CASE WHEN :pending THEN h.next_offset ELSE h.passed END
  AND (r.topic_id, r.partition, r."offset") > (:after_topic, :after_partition, :after_offset)
  AND (:pending OR NOT EXISTS (
      SELECT 1 FROM penstock_group g
      LEFT JOIN penstock_lane_entry e ON e.group_id = g.id AND e.topic_id = r.topic_id
       AND e.partition = r.partition AND e."offset" = r."offset"
      LEFT JOIN penstock_dead d ON d.group_id = g.id AND d.topic_id = r.topic_id
       AND d.partition = r.partition AND d."offset" = r."offset"
      WHERE e."offset" IS NOT NULL OR d."offset" IS NOT NULL))
ORDER BY r.topic_id, r.partition, r."offset"
LIMIT :limit;

-- name: events_staged
-- A page of staged events in the order of staging; walks the primary key.
SELECT slot, seq, topic, id, key, type, timestamp_ms FROM penstock_staged
WHERE seq > :after_seq AND :after_slot IS NOT NULL
  AND (:topic IS NULL OR topic = :topic)
ORDER BY seq
LIMIT :limit;

-- name: open_writers
-- Open transactions that may have staged something: SQLite has no table of them, and reads nothing here.
SELECT NULL, '', '', NULL, NULL, NULL WHERE 0;

-- == Why a record is where it is

-- name: why_groups
-- The groups on a partition and where they are; walks the groups, and the primary key of cursors for each.
SELECT g.id, g.name, g.created_ms, g.filters, g.paused_ms, g.seen_ms,
       c."offset", c.passed, c.owner, c.crashes, c.trying
FROM penstock_group g
CROSS JOIN penstock_cursor c ON c.group_id = g.id AND c.topic_id = :topic_id AND c.partition = :partition
WHERE :group_id IS NULL OR g.id = :group_id
ORDER BY g.name;

-- name: why_lanes
-- The lane of a key in a partition, and those of records of it that are retried alone; walks the primary key.
SELECT lane, held, failures, due_ms, reason FROM penstock_lane
WHERE group_id = :group_id AND topic_id = :topic_id AND partition = :partition
  AND (lane = :lane OR (lane GLOB '#[0-9]*' AND substr(lane, instr(substr(lane, 2), '#') + 2) = :lane))
ORDER BY lane;

-- name: why_log_by_id
-- A record by its id within a range of offsets of some partitions; walks the primary key once for each range.
SELECT l.partition, l."offset", l.id, l.key, l.type, l.timestamp_ms
FROM json_each(:ranges) w
CROSS JOIN penstock_log l ON l.topic_id = :topic_id AND l.partition = json_extract(w.value, '$[0]')
 AND l."offset" >= json_extract(w.value, '$[1]') AND l."offset" < json_extract(w.value, '$[2]')
WHERE l.id = :id LIMIT 1;

-- name: why_staged_by_key
-- The oldest staged event of a key; walks the primary key, up to so many rows.
SELECT topic, id, key, type, timestamp_ms, slot, NULL FROM (
    SELECT * FROM penstock_staged ORDER BY seq LIMIT :walk)
WHERE slot = :slot AND key_hash = :key_hash AND key = :key AND (:topic IS NULL OR topic = :topic)
ORDER BY seq LIMIT 1;
