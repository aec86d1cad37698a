-- The statements of this room for every engine, in the neutral SQL that log/sql/statements.py describes. Locks are for
-- engines with many writers: in SQLite a transaction that writes is the only one.

-- == Records

-- name: bounds
-- The first offset kept and the next to be given; walks the primary key, locks nothing.
SELECT start_offset, next_offset FROM penstock_head WHERE topic_id = :topic_id AND partition = :partition;

-- name: erase_find
-- Some records of an owner, in any order; walks ix_penstock_log_owner, locks nothing: a hint, looked at again when erased.
SELECT topic_id, partition, "offset", id FROM penstock_log WHERE owner = :owner LIMIT :limit;

-- name: offset_at
-- The first offset with a timestamp at or after a moment; from the last sparse mark before it, walks the primary key, locks nothing.
SELECT "offset" FROM penstock_log
WHERE topic_id = :topic_id AND partition = :partition AND timestamp_ms >= :timestamp_ms
  AND "offset" >= coalesce((
        SELECT "offset" FROM penstock_log_time
        WHERE topic_id = :topic_id AND partition = :partition AND max_ms < :timestamp_ms
        ORDER BY "offset" DESC LIMIT 1), 0)
ORDER BY "offset" LIMIT 1;

-- name: read
-- Records from an offset on, at most so many and so many bytes, but at least one; walks the primary key, locks nothing.
SELECT "offset", id, key, type, value, headers, timestamp_ms
FROM (
    SELECT *, sum(size) OVER (ORDER BY "offset") - size AS bytes_before
    FROM (
        SELECT *, coalesce(octet_length(value), 0) + coalesce(octet_length(key), 0)
                  + coalesce(octet_length(headers), 0) + 64 AS size
        FROM penstock_log
        WHERE topic_id = :topic_id AND partition = :partition AND "offset" >= :offset
          AND type <> 'penstock.erased'
        ORDER BY "offset"
        LIMIT :limit
    ) AS sized
) AS measured
WHERE bytes_before = 0 OR bytes_before < :max_bytes
ORDER BY "offset";

-- == Heads: where each partition begins and ends

-- name: fence_slots
-- Lock, in slot order, those of these slots that the owner still holds in these epochs; only they may go on.
SELECT s.slot
FROM rows(:owned, slot smallint, epoch bigint) AS o
JOIN penstock_slot s ON s.slot = o.slot AND s.epoch = o.epoch
WHERE s.owner = :owner
ORDER BY s.slot
FOR UPDATE OF s;

-- name: heads_create
-- Make the heads of a topic's partitions; walks the primary key, waits for one who is making the same.
WITH RECURSIVE numbers (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM numbers WHERE n < :partitions - 1)
INSERT INTO penstock_head (topic_id, partition) SELECT :topic_id, n FROM numbers WHERE true
ON CONFLICT DO NOTHING;

-- name: heads_delete
-- Remove a topic's heads; walks the primary key.
DELETE FROM penstock_head WHERE topic_id = :topic_id;

-- name: heads_list
-- Where the partitions of a topic begin and end, those that ever held something; walks the primary key, locks nothing.
SELECT partition, start_offset, next_offset FROM penstock_head WHERE topic_id = :topic_id AND next_offset > 0;

-- name: heads_lock
-- Lock some heads, always in this order (any other order deadlocks), and read their next offsets; walks the primary key.
SELECT h.topic_id, h.partition, h.next_offset, h.max_ms
FROM rows(:heads, topic_id integer, partition integer) AS w
JOIN penstock_head h ON h.topic_id = w.topic_id AND h.partition = w.partition
ORDER BY h.topic_id, h.partition
FOR UPDATE OF h;

-- name: heads_raise
-- Raise heads by what was added to them; their locks are held already.
UPDATE penstock_head AS h
SET next_offset = h.next_offset + w.added, max_ms = greatest(h.max_ms, w.max_ms)
FROM rows(:raises, topic_id integer, partition integer, added bigint, max_ms bigint) AS w
WHERE h.topic_id = w.topic_id AND h.partition = w.partition;

-- == Topics

-- name: cursors_delete
-- Remove every group's cursors on a topic; reads the table, which is small.
DELETE FROM penstock_cursor WHERE topic_id = :topic_id;

-- name: dead_delete
-- Remove the dead letters of a deleted topic; reads the table, which holds failures only.
DELETE FROM penstock_dead WHERE topic_id = :topic_id;

-- name: domains_delete
-- Remove what was said about sharing a deleted topic; reads the table, which is small.
DELETE FROM penstock_domain WHERE name LIKE 'group/%/' || :topic_id::text;

-- name: entries_delete
-- Remove the lane entries of a deleted topic; reads the table, which holds failures only.
DELETE FROM penstock_lane_entry WHERE topic_id = :topic_id;

-- name: lanes_delete
-- Remove the waiting lanes of a deleted topic; reads the table, which holds failures only.
DELETE FROM penstock_lane WHERE topic_id = :topic_id;

-- name: times_add
-- Mark, sparsely, how late the records below an offset are; the heads' locks are held already.
INSERT INTO penstock_log_time (topic_id, partition, "offset", max_ms)
SELECT m.topic_id, m.partition, m.place, m.max_ms
FROM rows(:marks, topic_id integer, partition integer, place bigint, max_ms bigint) AS m
WHERE true
ON CONFLICT DO NOTHING;

-- name: times_delete
-- Remove a topic's time marks; walks the primary key.
DELETE FROM penstock_log_time WHERE topic_id = :topic_id;

-- name: topic_create
-- Make a topic unless the name is taken; locks the name, waits for one who is making the same.
INSERT INTO penstock_topic (name, partitions, partitioner, created_ms)
VALUES (:name, :partitions, :partitioner, now_ms(:now_ms))
ON CONFLICT (name) DO NOTHING;

-- name: topic_delete
-- Remove a topic's name; locks its row, so that a move or append under way has ended before.
DELETE FROM penstock_topic WHERE id = :topic_id;

-- name: topic_find
-- Topics by name; walks the unique index on name, locks nothing.
SELECT id, name, partitions, partitioner FROM penstock_topic WHERE name = ANY(:names::text[]);

-- name: topic_keep
-- Topics by name; walks the unique index on name. Locks them against deletion until the transaction ends.
SELECT id, name, partitions, partitioner FROM penstock_topic WHERE name = ANY(:names::text[])
ORDER BY id FOR KEY SHARE;

-- name: topic_list
-- All topics; reads the table.
SELECT id, name, partitions, partitioner FROM penstock_topic ORDER BY name;

-- == Retention

-- name: trim_aged
-- Of some ranges of offsets the first record that is not older than a moment; from the last sparse mark before it, walks
-- the primary key, locks nothing. NULL: all are older.
SELECT w.partition,
       (SELECT l."offset" FROM penstock_log l
        WHERE l.topic_id = :topic_id AND l.partition = w.partition AND l."offset" < w.high
          AND l."offset" >= greatest(w.low, coalesce((
                SELECT t."offset" FROM penstock_log_time t
                WHERE t.topic_id = :topic_id AND t.partition = w.partition AND t."offset" <= w.high
                  AND t.max_ms < :cutoff_ms
                ORDER BY t."offset" DESC LIMIT 1), 0))
          AND l.timestamp_ms >= :cutoff_ms
        ORDER BY l."offset" LIMIT 1)
FROM rows(:ranges, partition integer, low bigint, high bigint) AS w;

-- name: trim_cursors
-- Keep the owners of some cursors from settling until the end; locks those rows in order, walks the primary key.
SELECT c.group_id, c.partition
FROM rows(:cursors, group_id integer, partition integer) AS w
CROSS JOIN penstock_cursor c ON c.group_id = w.group_id AND c.topic_id = :topic_id AND c.partition = w.partition
ORDER BY c.group_id, c.partition
FOR UPDATE OF c;

-- name: trim_heads
-- The partitions of a topic that hold something: start, end, the slowest cursor of the groups that were seen lately (NULL:
-- there is none), and the time of the oldest record. Walks the heads, and for each the primary keys; locks nothing.
SELECT h.partition, h.start_offset, h.next_offset,
       (SELECT min(c."offset") FROM penstock_group g
        CROSS JOIN penstock_cursor c ON c.group_id = g.id AND c.topic_id = h.topic_id AND c.partition = h.partition
        WHERE greatest(g.seen_ms, g.created_ms) >= :seen_since),
       (SELECT l.timestamp_ms FROM penstock_log l
        WHERE l.topic_id = h.topic_id AND l.partition = h.partition AND l."offset" >= h.start_offset
        ORDER BY l."offset" LIMIT 1)
FROM penstock_head h
WHERE h.topic_id = :topic_id AND h.start_offset < h.next_offset
ORDER BY h.partition;

-- name: trim_measure
-- How many bytes some ranges of offsets hold, as a read counts them; walks the primary key, locks nothing.
SELECT w.partition,
       (SELECT coalesce(sum(coalesce(octet_length(l.value), 0) + coalesce(octet_length(l.key), 0)
                  + coalesce(octet_length(l.headers), 0) + 64), 0)::bigint
        FROM penstock_log l
        WHERE l.topic_id = :topic_id AND l.partition = w.partition AND l."offset" >= w.low AND l."offset" < w.high)
FROM rows(:ranges, partition integer, low bigint, high bigint) AS w;

-- name: trim_oversize
-- Of some ranges of offsets the place after the oldest records that together have the bytes too many; walks the primary
-- key, locks nothing.
SELECT w.partition,
       (SELECT max(s."offset") + 1 FROM (
            SELECT l."offset", sum(coalesce(octet_length(l.value), 0) + coalesce(octet_length(l.key), 0)
                  + coalesce(octet_length(l.headers), 0) + 64)
                       OVER (ORDER BY l."offset" ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before
            FROM penstock_log l
            WHERE l.topic_id = :topic_id AND l.partition = w.partition AND l."offset" >= w.low
              AND l."offset" < w.high) AS s
        WHERE coalesce(s.before, 0) < w.excess)
FROM rows(:ranges, partition integer, low bigint, high bigint, excess bigint) AS w;

-- name: trim_topics
-- What is kept of each topic, and the time; reads the table, locks nothing.
SELECT id, name, retention_ms, retention_bytes, retention_records,
       now_ms(:now_ms)
FROM penstock_topic ORDER BY name;

-- == The schema, its version and what it is made of

-- name: meta_read
-- One fact about this store; walks the primary key.
SELECT value FROM penstock_meta WHERE name = :name;

-- name: version_read
-- The last migration applied; walks the primary key.
SELECT value FROM penstock_meta WHERE name = 'schema_version';
