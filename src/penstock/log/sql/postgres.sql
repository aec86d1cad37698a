-- What PostgreSQL is told in its own way: locks in an order, LATERAL, and several steps in one statement.

-- == Records

-- name: append
-- Add records at offsets taken under their heads' locks.
INSERT INTO penstock_log (topic_id, partition, "offset", id, key, type, value, headers, timestamp_ms, owner)
SELECT * FROM unnest(?::integer[], ?::integer[], ?::bigint[], ?::text[], ?::bytea[], ?::text[], ?::bytea[],
                     ?::bytea[], ?::bigint[], ?::text[]);

-- name: erase_records
-- Take all content out of some records of an owner, keeping their offsets; walks the primary key
-- once for each (LATERAL, LIMIT), locks those rows. The cursors' locks are held already.
UPDATE penstock_log
SET key = NULL, value = NULL, headers = NULL, owner = NULL, type = 'penstock.erased'
WHERE owner = :owner AND ctid = ANY(ARRAY(
    SELECT l.ctid
    FROM rows(:places, partition integer, place bigint) AS w
    CROSS JOIN LATERAL (
        SELECT r.ctid FROM penstock_log r
        WHERE r.topic_id = :topic_id AND r.partition = w.partition AND r."offset" = w.place
        LIMIT 1) AS l));

-- name: first_offsets
-- Where some partitions go on: the first offset at or after a place; walks the primary key once for each (LATERAL, LIMIT),
-- locks nothing.
SELECT w.partition, l."offset"
FROM rows(:places, partition integer, low bigint) AS w
CROSS JOIN LATERAL (
    SELECT r."offset" FROM penstock_log r
    WHERE r.topic_id = :topic_id AND r.partition = w.partition AND r."offset" >= w.low
    ORDER BY r."offset" LIMIT 1) AS l;

-- name: log_delete
-- Remove some of a deleted topic's records; walks the primary key.
DELETE FROM penstock_log WHERE ctid = ANY(ARRAY(
    SELECT ctid FROM penstock_log WHERE topic_id = :topic_id LIMIT :limit));

-- name: read_ranges
-- Records of several partitions, a range of offsets each, in that order, and of these no more than so many bytes of values
-- (but one record at least); walks the primary key once for each range (LATERAL, LIMIT: a free join walked the whole
-- topic), locks nothing.
SELECT partition, "offset", id, key, type, value, headers, timestamp_ms
FROM (
    SELECT w.place, l.partition, l."offset", l.id, l.key, l.type, l.value, l.headers, l.timestamp_ms,
           sum(coalesce(octet_length(l.value), 0)) OVER before AS bytes
    FROM unnest(:ranges.partition::integer[], :ranges.low::bigint[], :ranges.high::bigint[])
         WITH ORDINALITY AS w (partition, low, high, place)
    CROSS JOIN LATERAL (
        SELECT r.* FROM penstock_log r
        WHERE r.topic_id = :topic_id AND r.partition = w.partition AND r."offset" >= w.low AND r."offset" < w.high
        ORDER BY r."offset" LIMIT w.high - w.low) AS l
    WINDOW before AS (ORDER BY w.place, l."offset" ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)) AS found
WHERE coalesce(bytes, 0) < :max_bytes
ORDER BY place, "offset";

-- == Retention

-- name: trim_behind
-- Whether a group that was seen lately stands before the end of some ranges, and so still needs records of them; walks the
-- groups and, for each range, the primary key, locks nothing. The heads' locks are held already.
SELECT w.partition
FROM rows(:ranges, partition integer, low bigint, high bigint) AS w
CROSS JOIN LATERAL (
    SELECT 1 FROM penstock_group g
    JOIN penstock_cursor c ON c.group_id = g.id AND c.topic_id = :topic_id AND c.partition = w.partition
    WHERE greatest(g.seen_ms, g.created_ms) >= :seen_since AND c."offset" < w.high
    LIMIT 1) AS found
LIMIT 1;

-- name: trim_copy
-- Copy records that wait in lanes out of the ranges that are deleted next; walks the primary keys, for each group and
-- range (LATERAL). The cursors' locks are held already.
UPDATE penstock_lane_entry e
SET id = f.id, key = f.key, type = f.type, value = f.value, headers = f.headers, timestamp_ms = f.timestamp_ms,
    owner = f.owner
FROM (
    SELECT g.id AS group_id, l.*
    FROM rows(:ranges, partition integer, low bigint, high bigint) AS w
    CROSS JOIN penstock_group g
    CROSS JOIN LATERAL (
        SELECT n.partition, n."offset" FROM penstock_lane_entry n
        WHERE n.group_id = g.id AND n.topic_id = :topic_id AND n.partition = w.partition
          AND n."offset" >= w.low AND n."offset" < w.high AND n.id IS NULL
        ORDER BY n."offset" LIMIT w.high - w.low) AS waits
    CROSS JOIN LATERAL (
        SELECT r.* FROM penstock_log r
        WHERE r.topic_id = :topic_id AND r.partition = waits.partition AND r."offset" = waits."offset"
        LIMIT 1) AS l) AS f
WHERE e.group_id = f.group_id AND e.topic_id = :topic_id AND e.partition = f.partition AND e."offset" = f."offset";

-- name: trim_delete
-- Remove the oldest records of some partitions; walks the primary key once for each range (LATERAL, LIMIT), locks those
-- rows and no others.
DELETE FROM penstock_log WHERE ctid = ANY(ARRAY(
    SELECT l.ctid
    FROM rows(:ranges, partition integer, low bigint, high bigint) AS w
    CROSS JOIN LATERAL (
        SELECT r.ctid FROM penstock_log r
        WHERE r.topic_id = :topic_id AND r.partition = w.partition AND r."offset" >= w.low AND r."offset" < w.high
        ORDER BY r."offset" LIMIT w.high - w.low) AS l));

-- name: trim_left
-- Whether records of some ranges are still there, changed by others while they were deleted; walks the primary key, locks
-- nothing.
SELECT w.partition
FROM rows(:ranges, partition integer, low bigint, high bigint) AS w
CROSS JOIN LATERAL (
    SELECT 1 FROM penstock_log l
    WHERE l.topic_id = :topic_id AND l.partition = w.partition AND l."offset" >= w.low AND l."offset" < w.high
    LIMIT 1) AS found
LIMIT 1;

-- name: trim_raise
-- Say where partitions begin now, last and shortly before the commit; locks those heads in order, once (MATERIALIZED: a
-- join may not run the locking again for each row), walks the primary key.
WITH locked AS MATERIALIZED (
    SELECT partition FROM penstock_head
    WHERE topic_id = :topic_id AND partition = ANY(:ranges.partition::integer[])
    ORDER BY partition FOR UPDATE)
UPDATE penstock_head h SET start_offset = w.high
FROM rows(:ranges, partition integer, low bigint, high bigint) AS w
JOIN locked ON locked.partition = w.partition
WHERE h.topic_id = :topic_id AND h.partition = w.partition AND h.start_offset < w.high;

-- name: trim_times
-- Remove the time marks that speak only of deleted records; walks the primary key.
DELETE FROM penstock_log_time t
USING rows(:ranges, partition integer, low bigint, high bigint) AS w
WHERE t.topic_id = :topic_id AND t.partition = w.partition AND t."offset" <= w.high;

-- name: trim_waiting
-- In which partitions of which groups records wait that some ranges of offsets hold and that are not copied yet; walks
-- the primary key once for each group and range (LATERAL, LIMIT), locks nothing.
SELECT g.id, w.partition
FROM rows(:ranges, partition integer, low bigint, high bigint) AS w
CROSS JOIN penstock_group g
CROSS JOIN LATERAL (
    SELECT 1 FROM penstock_lane_entry e
    WHERE e.group_id = g.id AND e.topic_id = :topic_id AND e.partition = w.partition
      AND e."offset" >= w.low AND e."offset" < w.high AND e.id IS NULL
    LIMIT 1) AS found
ORDER BY g.id, w.partition;

-- == The schema, its version and what it is made of

-- name: columns
-- Every column of our tables as the information schema describes it; views are compared whole. Locks nothing.
SELECT c.table_name, c.column_name, c.data_type, 'nullable: ' || c.is_nullable, 'default: ' || coalesce(c.column_default, '')
FROM information_schema.columns c
JOIN information_schema.tables t ON t.table_schema = c.table_schema AND t.table_name = c.table_name
WHERE t.table_type = 'BASE TABLE' AND t.table_schema = coalesce(:schema, current_schema())
  AND starts_with(t.table_name, :prefix);

-- name: definitions
-- Every view and function of ours, and what it is; reads the catalog, locks nothing.
SELECT 'view', v.viewname, v.definition
FROM pg_views v
WHERE v.schemaname = coalesce(:schema, current_schema()) AND starts_with(v.viewname, :prefix)
UNION ALL
SELECT 'function', p.proname, p.provolatile::text || ' ' || p.prosrc
FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
WHERE n.nspname = coalesce(:schema, current_schema()) AND starts_with(p.proname, :prefix);

-- name: indexes
-- Every index of our tables: whether it is unique, and what it holds; reads the catalog, locks nothing.
SELECT t.relname, 'index', CASE WHEN i.indisunique THEN 'unique' ELSE 'plain' END,
       substring(pg_get_indexdef(i.indexrelid) FROM '[(].*')
FROM pg_index i
JOIN pg_class t ON t.oid = i.indrelid
JOIN pg_namespace n ON n.oid = t.relnamespace
WHERE n.nspname = coalesce(:schema, current_schema()) AND starts_with(t.relname, :prefix);

-- name: meta_find
-- Whether the tables are there, on the search path or in their schema; locks nothing.
SELECT 1 WHERE to_regclass('penstock_meta') IS NOT NULL;

-- name: migrations_lock
-- Lets a second migration wait until this transaction has ended; locks a number that means "penstock".
SELECT pg_advisory_xact_lock(8099000947049456491);

-- name: sequence_cache
-- How many numbers a session takes from the staging sequence at a time; locks nothing.
SELECT seqcache FROM pg_sequence WHERE seqrelid = to_regclass(:sequence);

-- name: table_find
-- Whether a table is there, on the search path or in the schema its name says; locks nothing.
SELECT 1 WHERE to_regclass(:table) IS NOT NULL;
