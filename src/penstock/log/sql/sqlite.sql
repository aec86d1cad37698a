-- SQLite's own forms: it has one writer and so no locks, and CROSS JOIN fixes the order of tables.

-- == Records

-- name: erase_records
-- Remove the content of some records of an owner, keeping their offsets; walks the primary key.
UPDATE penstock_log
SET key = NULL, value = NULL, headers = NULL, owner = NULL, type = 'penstock.erased'
WHERE type <> 'penstock.erased' AND (:owner::text IS NULL OR owner = :owner::text) AND rowid IN (
    SELECT l.rowid FROM json_each(:places) w
    CROSS JOIN penstock_log l ON l.topic_id = :topic_id AND l.partition = json_extract(w.value, '$[0]')
     AND l."offset" = json_extract(w.value, '$[1]'));

-- name: read_ranges
-- Records of several partitions, a range of offsets each, in that order, up to a number of bytes (but at
-- least one record); walks the primary key once for each range: the cross join keeps SQLite from walking the
-- log and probing the ranges.
SELECT partition, "offset", id, key, nullif(type, ''), value, headers, timestamp_ms
FROM (
    SELECT l.partition, l."offset", l.id, l.key, l.type, l.value, l.headers, l.timestamp_ms,
           sum(coalesce(length(l.value), 0) + coalesce(length(l.key), 0) + coalesce(length(l.headers), 0) + 64)
               OVER (ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS bytes
    FROM json_each(:ranges) w
    CROSS JOIN penstock_log l ON l.topic_id = :topic_id AND l.partition = json_extract(w.value, '$[0]')
     AND l."offset" >= json_extract(w.value, '$[1]') AND l."offset" < json_extract(w.value, '$[2]'))
WHERE coalesce(bytes, 0) < :max_bytes;

-- name: read_bare
-- As read_ranges, but all records, without values and headers; walks the primary key once for each range (cross join).
SELECT l.partition, l."offset", l.id, l.key, nullif(l.type, ''), NULL, NULL, l.timestamp_ms
FROM json_each(:ranges) w
CROSS JOIN penstock_log l ON l.topic_id = :topic_id AND l.partition = json_extract(w.value, '$[0]')
 AND l."offset" >= json_extract(w.value, '$[1]') AND l."offset" < json_extract(w.value, '$[2]');

-- name: sweep_cleared
-- Remove some records of a topic before the starts of its partitions; walks the primary keys: the cross join
-- keeps SQLite from walking the whole log.
DELETE FROM penstock_log WHERE rowid IN (
    SELECT l.rowid FROM penstock_head h
    CROSS JOIN penstock_log l ON l.topic_id = h.topic_id AND l.partition = h.partition AND l."offset" < h.start_offset
    WHERE h.topic_id = :topic_id LIMIT :limit);

-- name: sweep_deleted
-- Remove some records of a deleted topic; walks the primary key.
DELETE FROM penstock_log WHERE rowid IN (SELECT rowid FROM penstock_log WHERE topic_id = :topic_id LIMIT :limit);

-- == Retention

-- name: topic_number_take
-- Take a number of a topic, so that no later topic gets it; the row is deleted at once.
INSERT INTO penstock_topic (id, name, partitions, partitioner, created_ms) VALUES (:number, '', 1, '', 0);

-- name: topic_numbers_given
-- The largest number that a topic ever had; reads a row of SQLite's own table.
SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'penstock_topic';

-- name: trim_delete
-- Remove the oldest records of some partitions; walks the primary key once for each range (cross join).
DELETE FROM penstock_log WHERE rowid IN (
    SELECT l.rowid FROM json_each(:ranges) w
    CROSS JOIN penstock_log l ON l.topic_id = :topic_id AND l.partition = json_extract(w.value, '$[0]')
     AND l."offset" >= json_extract(w.value, '$[1]') AND l."offset" < json_extract(w.value, '$[2]'));

-- == The copies of the tables beside a log in files

-- name: copied
-- The columns for a copy of each of our tables, those of the key first; reads the schema table, locks nothing.
SELECT t.name, c.name FROM sqlite_master t JOIN pragma_table_info(t.name) c
WHERE t.type = 'table' AND substr(t.name, 1, length(:prefix)) = :prefix
ORDER BY t.name, c.pk = 0, c.pk, c.cid;

-- name: copies
-- The columns of the existing copies of our tables; reads the schema table, locks nothing.
SELECT i.tbl_name, c.name FROM sqlite_master i JOIN pragma_index_info(i.name) c
WHERE i.type = 'index' AND i.name = 'copy_' || i.tbl_name AND substr(i.tbl_name, 1, length(:prefix)) = :prefix
ORDER BY i.tbl_name, c.seqno;

-- name: arrow_fetch
-- Records of several partitions, a range of offsets each, except erased ones; CROSS JOIN keeps the order of
-- the tables, so that each range walks the primary key. ?1 topic, ?2 ranges as JSON, ?3 key, ?4 value, ?5
-- headers (wanted or not). The first row, of partition -1, is no record: the driver takes a column's type
-- from its first rows, which could be all NULL.
SELECT -1 AS partition, 0 AS "offset", '' AS type, 0 AS timestamp_ms, x'' AS key, x'' AS value, x'' AS headers
UNION ALL
SELECT l.partition, l."offset", l.type, l.timestamp_ms,
       CASE WHEN ?3 THEN l.key END, CASE WHEN ?4 THEN l.value END, CASE WHEN ?5 THEN l.headers END
FROM json_each(?2) w
CROSS JOIN penstock_log l ON l.topic_id = ?1 AND l.partition = json_extract(w.value, '$[0]')
 AND l."offset" >= json_extract(w.value, '$[1]') AND l."offset" < json_extract(w.value, '$[2]')
 AND l.type <> 'penstock.erased';

-- name: arrow_starts
-- The first offset kept of each partition of a topic (?1); walks the primary key.
SELECT partition, start_offset FROM penstock_head WHERE topic_id = ?1;
