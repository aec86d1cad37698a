-- What SQLite is told in its own way: it has one writer and so no locks, and CROSS JOIN keeps it to an order of tables.

-- == Records

-- name: append
-- Add one record at an offset taken under its head's lock.
INSERT INTO penstock_log (topic_id, partition, "offset", id, key, type, value, headers, timestamp_ms, owner)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: erase_records
-- Take all content out of some records of an owner, keeping their offsets; walks the primary key.
UPDATE penstock_log
SET key = NULL, value = NULL, headers = NULL, owner = NULL, type = 'penstock.erased'
WHERE owner = :owner AND rowid IN (
    SELECT l.rowid FROM json_each(:places) w
    CROSS JOIN penstock_log l ON l.topic_id = :topic_id AND l.partition = json_extract(w.value, '$[0]')
     AND l."offset" = json_extract(w.value, '$[1]'));

-- name: first_offsets
-- Where some partitions go on: the first offset at or after a place; walks the primary key once for each.
SELECT partition, "offset" FROM (
    SELECT json_extract(w.value, '$[0]') AS partition,
           (SELECT l."offset" FROM penstock_log l
            WHERE l.topic_id = :topic_id AND l.partition = json_extract(w.value, '$[0]')
              AND l."offset" >= json_extract(w.value, '$[1]')
            ORDER BY l."offset" LIMIT 1) AS "offset"
    FROM json_each(:places) w)
WHERE "offset" IS NOT NULL;

-- name: log_delete
-- Remove some of a deleted topic's records; walks the primary key.
DELETE FROM penstock_log WHERE rowid IN (SELECT rowid FROM penstock_log WHERE topic_id = :topic_id LIMIT :limit);

-- name: read_ranges
-- Records of several partitions, a range of offsets each, in that order, and of these no more than so many bytes of values
-- (but one record at least); walks the primary key once for each range: the cross join keeps SQLite from walking the log
-- and asking the ranges.
SELECT partition, "offset", id, key, type, value, headers, timestamp_ms
FROM (
    SELECT l.partition, l."offset", l.id, l.key, l.type, l.value, l.headers, l.timestamp_ms,
           sum(coalesce(length(l.value), 0)) OVER (ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS bytes
    FROM json_each(:ranges) w
    CROSS JOIN penstock_log l ON l.topic_id = :topic_id AND l.partition = json_extract(w.value, '$[0]')
     AND l."offset" >= json_extract(w.value, '$[1]') AND l."offset" < json_extract(w.value, '$[2]'))
WHERE coalesce(bytes, 0) < :max_bytes;

-- == Retention

-- name: trim_behind
-- Whether a group that was seen lately stands before the end of some ranges, and so still needs records of them; walks the
-- groups and, for each range, the primary key (cross join).
SELECT c.partition
FROM json_each(:ranges) w
CROSS JOIN penstock_group g
CROSS JOIN penstock_cursor c ON c.group_id = g.id AND c.topic_id = :topic_id
 AND c.partition = json_extract(w.value, '$[0]')
WHERE max(g.seen_ms, g.created_ms) >= :seen_since AND c."offset" < json_extract(w.value, '$[2]')
LIMIT 1;

-- name: trim_copy
-- Copy records that wait in lanes out of the ranges that are deleted next; walks the primary keys, for each group and
-- range (cross joins).
UPDATE penstock_lane_entry AS e
SET id = f.id, key = f.key, type = f.type, value = f.value, headers = f.headers, timestamp_ms = f.timestamp_ms,
    owner = f.owner
FROM (
    SELECT n.group_id, l.partition, l."offset", l.id, l.key, l.type, l.value, l.headers, l.timestamp_ms, l.owner
    FROM json_each(:ranges) w
    CROSS JOIN penstock_group g
    CROSS JOIN penstock_lane_entry n ON n.group_id = g.id AND n.topic_id = :topic_id
     AND n.partition = json_extract(w.value, '$[0]')
     AND n."offset" >= json_extract(w.value, '$[1]') AND n."offset" < json_extract(w.value, '$[2]')
    CROSS JOIN penstock_log l ON l.topic_id = :topic_id AND l.partition = n.partition AND l."offset" = n."offset"
    WHERE n.id IS NULL) AS f
WHERE e.group_id = f.group_id AND e.topic_id = :topic_id AND e.partition = f.partition AND e."offset" = f."offset";

-- name: trim_delete
-- Remove the oldest records of some partitions; walks the primary key once for each range (cross join).
DELETE FROM penstock_log WHERE rowid IN (
    SELECT l.rowid FROM json_each(:ranges) w
    CROSS JOIN penstock_log l ON l.topic_id = :topic_id AND l.partition = json_extract(w.value, '$[0]')
     AND l."offset" >= json_extract(w.value, '$[1]') AND l."offset" < json_extract(w.value, '$[2]'));

-- name: trim_left
-- Whether records of some ranges are still there; walks the primary key (cross join).
SELECT l.partition
FROM json_each(:ranges) w
CROSS JOIN penstock_log l ON l.topic_id = :topic_id AND l.partition = json_extract(w.value, '$[0]')
 AND l."offset" >= json_extract(w.value, '$[1]') AND l."offset" < json_extract(w.value, '$[2]')
LIMIT 1;

-- name: trim_raise
-- Say where partitions begin now; walks the primary key.
UPDATE penstock_head AS h SET start_offset = json_extract(w.value, '$[2]')
FROM json_each(:ranges) w
WHERE h.topic_id = :topic_id AND h.partition = json_extract(w.value, '$[0]')
  AND h.start_offset < json_extract(w.value, '$[2]');

-- name: trim_times
-- Remove the time marks that speak only of deleted records; walks the primary key.
DELETE FROM penstock_log_time WHERE (topic_id, partition, "offset") IN (
    SELECT t.topic_id, t.partition, t."offset" FROM json_each(:ranges) w
    CROSS JOIN penstock_log_time t ON t.topic_id = :topic_id AND t.partition = json_extract(w.value, '$[0]')
     AND t."offset" <= json_extract(w.value, '$[2]'));

-- name: trim_waiting
-- In which partitions of which groups records wait that some ranges of offsets hold and that are not copied yet; walks
-- the primary key once for each group and range (cross joins).
SELECT DISTINCT g.id, e.partition
FROM json_each(:ranges) w
CROSS JOIN penstock_group g
CROSS JOIN penstock_lane_entry e ON e.group_id = g.id AND e.topic_id = :topic_id
 AND e.partition = json_extract(w.value, '$[0]')
 AND e."offset" >= json_extract(w.value, '$[1]') AND e."offset" < json_extract(w.value, '$[2]')
WHERE e.id IS NULL
ORDER BY g.id, e.partition;

-- == The schema, its version and what it is made of

-- name: columns
-- Every column of our tables as SQLite describes it; reads the table of tables, locks nothing.
SELECT t.name, c.name, c.type, 'not null: ' || c."notnull", 'default: ' || coalesce(c.dflt_value, ''), 'key: ' || c.pk
FROM sqlite_master t JOIN pragma_table_info(t.name) c
WHERE t.type = 'table' AND substr(t.name, 1, length(:prefix)) = :prefix;

-- name: definitions
-- Every view of ours, and what it is; reads the table of tables, locks nothing.
SELECT 'view', name, sql FROM sqlite_master
WHERE type = 'view' AND substr(name, 1, length(:prefix)) = :prefix;

-- name: indexes
-- Every index of our tables: whether it is unique, and what it holds; reads the schema table, which is small.
SELECT t.name, 'index', CASE WHEN l."unique" THEN 'unique' ELSE 'plain' END,
       '(' || (SELECT group_concat(name, ', ') FROM pragma_index_info(l.name)) || ')'
FROM sqlite_master t JOIN pragma_index_list(t.name) l
WHERE t.type = 'table' AND substr(t.name, 1, length(:prefix)) = :prefix;

-- name: meta_find
-- Whether the tables are there; reads the table of tables, locks nothing.
SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'penstock_meta';

-- name: migrations_lock
-- Nothing to do: a file has one writer, which the framework's transaction is. Reads nothing, locks nothing.
SELECT 1;

-- name: sequence_cache
-- How many numbers are handed out at a time: with one writer, rowids rise one by one, in the order of commits.
-- Reads nothing, locks nothing.
SELECT 1 WHERE :sequence IS NOT NULL;

-- name: table_find
-- Whether a table is there; reads the table of tables, locks nothing.
SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = :table;
