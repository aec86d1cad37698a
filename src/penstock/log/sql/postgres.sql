-- PostgreSQL's own forms: ordered locks, LATERAL, and several steps in one statement.

-- == Records

-- name: append
-- Add records at offsets taken under their heads' locks.
INSERT INTO penstock_log (topic_id, partition, "offset", id, key, type, value, headers, timestamp_ms, owner)
SELECT * FROM unnest(?::integer[], ?::integer[], ?::bigint[], ?::text[], ?::bytea[], ?::text[], ?::bytea[],
                     ?::bytea[], ?::bigint[], ?::text[]);

-- name: pending_add
-- Hold back records of open transactions; their producers' locks are held already.
INSERT INTO penstock_pending (producer_id, topic_id, partition, id, key, type, value, headers, timestamp_ms)
SELECT producer_id, topic_id, partition, id, key, type, value, headers, timestamp_ms
FROM unnest(?::bigint[], ?::integer[], ?::integer[], ?::text[], ?::bytea[], ?::text[], ?::bytea[],
                     ?::bytea[], ?::bigint[]) WITH ORDINALITY AS p (producer_id, topic_id, partition, id, key, type, value,
                     headers, timestamp_ms, place)
ORDER BY place;

-- name: erase_records
-- Remove the content of some records of an owner, keeping their offsets; walks the primary key once for each
-- (LATERAL, LIMIT), locks those rows. The cursors' locks are held already.
UPDATE penstock_log
SET key = NULL, value = NULL, headers = NULL, owner = NULL, type = 'penstock.erased'
WHERE type <> 'penstock.erased' AND (:owner::text IS NULL OR owner = :owner::text) AND ctid = ANY(ARRAY(
    SELECT l.ctid
    FROM rows(:places, partition integer, place bigint) AS w
    CROSS JOIN LATERAL (
        SELECT r.ctid FROM penstock_log r
        WHERE r.topic_id = :topic_id AND r.partition = w.partition AND r."offset" = w.place
        LIMIT 1) AS l));

-- name: first_offsets
-- The first offset held at or after a position of some partitions; walks the primary key once for each
-- (LATERAL, LIMIT), locks nothing.
SELECT w.partition, l."offset"
FROM rows(:places, partition integer, low bigint) AS w
CROSS JOIN LATERAL (
    SELECT r."offset" FROM penstock_log r
    WHERE r.topic_id = :topic_id AND r.partition = w.partition AND r."offset" >= w.low
    ORDER BY r."offset" LIMIT 1) AS l;

-- name: read_ranges
-- Records of several partitions, a range of offsets each, in that order, up to a number of bytes (but at least one
-- record); walks the primary key once for each range (LATERAL, LIMIT: a free join walked the whole topic), locks nothing.
SELECT partition, "offset", id, key, nullif(type, ''), value, headers, timestamp_ms
FROM (
    SELECT w.place, l.partition, l."offset", l.id, l.key, l.type, l.value, l.headers, l.timestamp_ms,
           sum(coalesce(octet_length(l.value), 0) + coalesce(octet_length(l.key), 0) + coalesce(octet_length(l.headers), 0) + 64)
               OVER before AS bytes
    FROM unnest(:ranges.partition::integer[], :ranges.low::bigint[], :ranges.high::bigint[])
         WITH ORDINALITY AS w (partition, low, high, place)
    CROSS JOIN LATERAL (
        SELECT r.* FROM penstock_log r
        WHERE r.topic_id = :topic_id AND r.partition = w.partition AND r."offset" >= w.low AND r."offset" < w.high
        ORDER BY r."offset" LIMIT w.high - w.low) AS l
    WINDOW before AS (ORDER BY w.place, l."offset" ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)) AS found
WHERE coalesce(bytes, 0) < :max_bytes
ORDER BY place, "offset";

-- name: find_id
-- A record by its id within a range of offsets of some partitions; walks the primary key once for each range (LATERAL,
-- LIMIT), locks nothing.
SELECT l.partition, l."offset", l.id, l.key, nullif(l.type, ''), NULL, NULL, l.timestamp_ms
FROM rows(:ranges, partition integer, low bigint, high bigint) AS w
CROSS JOIN LATERAL (
    SELECT r.* FROM penstock_log r
    WHERE r.topic_id = :topic_id AND r.partition = w.partition AND r."offset" >= w.low AND r."offset" < w.high
      AND r.id = :id
    ORDER BY r."offset" LIMIT 1) AS l
LIMIT 1;

-- name: at
-- Records at some positions, in order, bare or whole; walks the primary key once for each (LATERAL, LIMIT),
-- locks nothing.
SELECT l.partition, l."offset", l.id, l.key, nullif(l.type, ''), CASE WHEN NOT :bare THEN l.value END,
       CASE WHEN NOT :bare THEN l.headers END, l.timestamp_ms, l.owner
FROM rows(:places, partition integer, place bigint) AS w
CROSS JOIN LATERAL (
    SELECT r.* FROM penstock_log r
    WHERE r.topic_id = :topic_id AND r.partition = w.partition AND r."offset" = w.place
    LIMIT 1) AS l
ORDER BY l.partition, l."offset";

-- name: read_bare
-- As read_ranges, but all records, without values and headers; walks the primary key once for each range
-- (LATERAL, LIMIT), locks nothing.
SELECT l.partition, l."offset", l.id, l.key, nullif(l.type, ''), NULL, NULL, l.timestamp_ms
FROM unnest(:ranges.partition::integer[], :ranges.low::bigint[], :ranges.high::bigint[])
     WITH ORDINALITY AS w (partition, low, high, place)
CROSS JOIN LATERAL (
    SELECT r.partition, r."offset", r.id, r.key, r.type, r.timestamp_ms FROM penstock_log r
    WHERE r.topic_id = :topic_id AND r.partition = w.partition AND r."offset" >= w.low AND r."offset" < w.high
    ORDER BY r."offset" LIMIT w.high - w.low) AS l
ORDER BY w.place, l."offset";

-- name: find_key_in
-- The records of a key within several ranges of offsets, in order; walks the primary key once for each (LATERAL, LIMIT), locks
-- nothing.
SELECT l.partition, l."offset", l.id, l.key, nullif(l.type, ''), NULL, NULL, l.timestamp_ms
FROM rows(:ranges, partition integer, low bigint, high bigint) AS w
CROSS JOIN LATERAL (
    SELECT r.partition, r."offset", r.id, r.key, r.type, r.timestamp_ms FROM penstock_log r
    WHERE r.topic_id = :topic_id AND r.partition = w.partition AND r."offset" >= w.low AND r."offset" < w.high
      AND r.key = :key
    ORDER BY r."offset" LIMIT w.high - w.low) AS l
ORDER BY l.partition, l."offset";

-- name: sweep_cleared
-- Remove some records of a topic before the starts of its partitions; walks the primary keys, once for each
-- partition, locks the rows.
DELETE FROM penstock_log WHERE ctid = ANY(ARRAY(
    SELECT l.ctid FROM penstock_head h
    CROSS JOIN LATERAL (
        SELECT r.ctid FROM penstock_log r
        WHERE r.topic_id = h.topic_id AND r.partition = h.partition AND r."offset" < h.start_offset
        ORDER BY r."offset" LIMIT :limit) AS l
    WHERE h.topic_id = :topic_id LIMIT :limit));

-- name: sweep_deleted
-- Remove some records of a deleted topic; walks the primary key.
DELETE FROM penstock_log WHERE ctid = ANY(ARRAY(
    SELECT ctid FROM penstock_log WHERE topic_id = :topic_id LIMIT :limit));

-- == Retention

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
-- Whether records of some ranges still exist, changed by others while they were deleted; walks the primary
-- key, locks nothing.
SELECT w.partition
FROM rows(:ranges, partition integer, low bigint, high bigint) AS w
CROSS JOIN LATERAL (
    SELECT 1 FROM penstock_log l
    WHERE l.topic_id = :topic_id AND l.partition = w.partition AND l."offset" >= w.low AND l."offset" < w.high
    LIMIT 1) AS found
LIMIT 1;

-- name: trim_raise
-- Raise the starts of partitions, last and shortly before the commit; locks those heads in order, once
-- (MATERIALIZED: a join must not run the locking again for each row), walks the primary key.
WITH locked AS MATERIALIZED (
    SELECT partition FROM penstock_head
    WHERE topic_id = :topic_id AND partition = ANY(:ranges.partition::integer[])
    ORDER BY partition FOR UPDATE)
UPDATE penstock_head h SET start_offset = w.high
FROM rows(:ranges, partition integer, low bigint, high bigint) AS w
JOIN locked ON locked.partition = w.partition
WHERE h.topic_id = :topic_id AND h.partition = w.partition AND h.start_offset < w.high;

-- name: trim_times
-- Remove the time marks that cover only deleted records; walks the primary key.
DELETE FROM penstock_log_time t
USING rows(:ranges, partition integer, low bigint, high bigint) AS w
WHERE t.topic_id = :topic_id AND t.partition = w.partition AND t."offset" <= w.high;

-- == The move: from staging into the log, in one statement

-- name: move_scheduled
-- Move scheduled rows into the log: number and insert only the rows that the delete returned, then raise the
-- heads by them. Slots and heads are locked already, by this transaction; walks the primary keys.
WITH gone AS (
    DELETE FROM penstock_scheduled s
    USING rows(:ids, seq bigint) AS i
    WHERE s.seq = i.seq
    RETURNING s.*
), placed AS (
    SELECT g.*, t.id AS topic_id, mod(g.key_hash, t.partitions) AS partition,
           row_number() OVER (PARTITION BY t.id, mod(g.key_hash, t.partitions) ORDER BY g.due_ms, g.seq) - 1 AS place
    FROM gone g
    JOIN rows(:topics, name text, id integer, partitions integer) AS t ON t.name = g.topic
), added AS (
    INSERT INTO penstock_log (topic_id, partition, "offset", id, key, type, value, headers, timestamp_ms, owner)
    SELECT p.topic_id, p.partition, h.next_offset + p.place, p.id, p.key, p.type, p.value, p.headers, p.timestamp_ms, p.owner
    FROM placed p JOIN penstock_head h ON h.topic_id = p.topic_id AND h.partition = p.partition
    ORDER BY p.topic_id, p.partition, p.place
    RETURNING topic_id, partition, timestamp_ms
), counted AS (
    SELECT topic_id, partition, count(*) AS count, max(timestamp_ms) AS max_ms FROM added GROUP BY topic_id, partition
)
UPDATE penstock_head h
SET next_offset = h.next_offset + c.count, max_ms = greatest(h.max_ms, c.max_ms)
FROM counted c
WHERE h.topic_id = c.topic_id AND h.partition = c.partition
RETURNING h.topic_id, h.partition, h.next_offset - c.count, c.count, h.max_ms;

-- name: move_staged
-- Move staged rows into the log: number and insert only the rows that the delete returned, then raise the
-- heads by them. Slots and heads are locked already, by this transaction; walks the primary keys.
WITH gone AS (
    DELETE FROM penstock_staged s
    WHERE s.ctid = ANY (ARRAY(
        SELECT f.ctid FROM rows(:ids, slot smallint, seq bigint) AS i
        CROSS JOIN LATERAL (
            SELECT r.ctid FROM penstock_staged r WHERE r.slot = i.slot AND r.seq = i.seq LIMIT 1) AS f))
    RETURNING s.*
), placed AS (
    SELECT g.*, t.id AS topic_id, mod(g.key_hash, t.partitions) AS partition,
           row_number() OVER (PARTITION BY t.id, mod(g.key_hash, t.partitions) ORDER BY g.seq) - 1 AS place
    FROM gone g
    JOIN rows(:topics, name text, id integer, partitions integer) AS t ON t.name = g.topic
), added AS (
    INSERT INTO penstock_log (topic_id, partition, "offset", id, key, type, value, headers, timestamp_ms, owner)
    SELECT p.topic_id, p.partition, h.next_offset + p.place, p.id, p.key, p.type, p.value, p.headers, p.timestamp_ms, p.owner
    FROM placed p JOIN penstock_head h ON h.topic_id = p.topic_id AND h.partition = p.partition
    ORDER BY p.topic_id, p.partition, p.place
    RETURNING topic_id, partition, timestamp_ms
), counted AS (
    SELECT topic_id, partition, count(*) AS count, max(timestamp_ms) AS max_ms FROM added GROUP BY topic_id, partition
)
UPDATE penstock_head h
SET next_offset = h.next_offset + c.count, max_ms = greatest(h.max_ms, c.max_ms)
FROM counted c
WHERE h.topic_id = c.topic_id AND h.partition = c.partition
RETURNING h.topic_id, h.partition, h.next_offset - c.count, c.count, h.max_ms;

-- == The move in one trip

-- name: fence_waiting
-- Lock those of some slots that have staged rows and are still owned in their epochs; a setting passes them
-- to the moving statement. Returns the number of slots lost to other owners: among those with staged rows, or
-- among all if it locked none. One probe of the primary key per slot; locks in order. The next statement
-- picks the rows of the slots, on a snapshot newer than the lock.
WITH waiting AS MATERIALIZED (
    SELECT o.slot, o.epoch
    FROM rows(:owned, slot smallint, epoch bigint) AS o
    WHERE EXISTS (SELECT 1 FROM penstock_staged g WHERE g.slot = o.slot)
), held AS MATERIALIZED (
    SELECT s.slot
    FROM waiting w JOIN penstock_slot s ON s.slot = w.slot AND s.epoch = w.epoch
    WHERE s.owner = :owner::text
    ORDER BY s.slot FOR UPDATE OF s
)
SELECT CASE WHEN EXISTS (SELECT 1 FROM held) THEN (SELECT count(*) FROM waiting) - (SELECT count(*) FROM held)
       ELSE (SELECT count(*) FROM rows(:owned, slot smallint, epoch bigint) AS o
             WHERE NOT EXISTS (SELECT 1 FROM penstock_slot s
                               WHERE s.slot = o.slot AND s.epoch = o.epoch AND s.owner = :owner::text)) END,
       set_config('penstock.held', ARRAY(SELECT h.slot FROM held h)::text, true);

-- name: move_at_once
-- Move the staged rows of some slots into the log; the statement before has locked the slots. Returns a row of counts, and a row for each moved
-- record, with its content if all together are no more than a number of bytes. Each step is there because the move went wrong without it:
-- owned: a fence that locked nothing does not stop this statement, so owner and epoch are compared again. Only slots that the fence has
-- locked are moved: in others, rows may have been staged since, as seen by this snapshot before it waits.
-- picked, placed: above the limit no row is moved, so that rows that are moved together keep their order. While a scheduled event is due in
-- one of the slots nothing is moved: it goes before the staged rows, by the other form.
-- topics, heads: joined before the delete, so rows without a topic or head yet stay staged, for the other form. Locked in order, once
-- (MATERIALIZED), topics against growth and deletion; offsets are taken from the locked rows, not from the snapshot.
-- gone: only rows that the delete returned are numbered. The first row fails if the heads were not raised by as many as were deleted.
-- Walks the primary keys, and ix_penstock_scheduled_due up to now.
WITH owned AS MATERIALIZED (
    SELECT o.slot
    FROM rows(:owned, slot smallint, epoch bigint) AS o
    JOIN penstock_slot s ON s.slot = o.slot AND s.epoch = o.epoch
    WHERE s.owner = :owner::text
      AND o.slot = ANY(ARRAY(SELECT h.slot FROM unnest(current_setting('penstock.held')::smallint[]) AS h (slot)))
), waiting AS MATERIALIZED (
    SELECT EXISTS (
        SELECT 1 FROM penstock_scheduled d
        WHERE d.due_ms <= now_ms(:now_ms) AND d.slot = ANY(:owned.slot::smallint[])) AS due
), picked AS MATERIALIZED (
    SELECT p.tid, p.topic, p.key_hash
    FROM owned o
    CROSS JOIN LATERAL (
        SELECT s.ctid AS tid, s.topic, s.key_hash FROM penstock_staged s
        WHERE s.slot = o.slot
        ORDER BY s.seq LIMIT :per_slot::integer) AS p
    WHERE NOT (SELECT w.due FROM waiting w)
    LIMIT :limit::integer + 1
), topics AS MATERIALIZED (
    SELECT t.id, t.name, t.partitions FROM penstock_topic t
    WHERE t.name = ANY(ARRAY(SELECT p.topic FROM picked p)) AND t.partitioner = :partitioner::text
    ORDER BY t.id FOR KEY SHARE
), placed AS MATERIALIZED (
    SELECT p.tid, t.id AS topic_id, mod(p.key_hash, t.partitions) AS partition
    FROM picked p JOIN topics t ON t.name = p.topic
    WHERE (SELECT count(*) FROM picked) <= :limit::integer
), heads AS MATERIALIZED (
    SELECT h.topic_id, h.partition, h.next_offset
    FROM (SELECT DISTINCT p.topic_id, p.partition FROM placed p) AS w
    JOIN penstock_head h ON h.topic_id = w.topic_id AND h.partition = w.partition
    ORDER BY h.topic_id, h.partition FOR UPDATE OF h
), gone AS (
    DELETE FROM penstock_staged s
    WHERE s.ctid = ANY (ARRAY(
        SELECT p.tid FROM placed p JOIN heads h ON h.topic_id = p.topic_id AND h.partition = p.partition))
    RETURNING s.*
), added AS (
    INSERT INTO penstock_log (topic_id, partition, "offset", id, key, type, value, headers, timestamp_ms, owner)
    SELECT h.topic_id, h.partition,
           h.next_offset - 1 + row_number() OVER (PARTITION BY h.topic_id, h.partition ORDER BY g.seq),
           g.id, g.key, g.type, g.value, g.headers, g.timestamp_ms, g.owner
    FROM gone g
    JOIN topics t ON t.name = g.topic
    JOIN heads h ON h.topic_id = t.id AND h.partition = mod(g.key_hash, t.partitions)
    RETURNING topic_id, partition, "offset", id, key, type, value, headers, timestamp_ms
), counted AS (
    SELECT topic_id, partition, min("offset") AS base, count(*) AS added, max(timestamp_ms) AS max_ms
    FROM added GROUP BY topic_id, partition
), raised AS (
    UPDATE penstock_head h
    SET next_offset = c.base + c.added, max_ms = greatest(h.max_ms, c.max_ms)
    FROM counted c
    WHERE h.topic_id = c.topic_id AND h.partition = c.partition
    RETURNING h.topic_id, h.partition, c.base, c.added, h.max_ms
), marked AS (
    INSERT INTO penstock_log_time (topic_id, partition, "offset", max_ms)
    SELECT topic_id, partition, base + added, max_ms FROM raised
    WHERE base / :mark_every::integer <> (base + added) / :mark_every::integer
    ON CONFLICT DO NOTHING
), counts AS MATERIALIZED (
    SELECT (SELECT count(*) FROM picked) AS picked, (SELECT count(*) FROM gone) AS gone,
           (SELECT coalesce(sum(r.added), 0) FROM raised r) AS raised, (SELECT w.due FROM waiting w) AS due
)
SELECT CASE WHEN t.gone = t.raised THEN t.gone ELSE ('removed ' || t.gone || ', raised by ' || t.raised)::bigint END,
       t.picked, t.due::integer::bigint, NULL::text, NULL::bytea, NULL::text, NULL::bytea, NULL::bytea, NULL::bigint
FROM counts t
UNION ALL
SELECT a.topic_id, a.partition, a."offset", CASE WHEN a.is_little THEN a.id END, CASE WHEN a.is_little THEN a.key END,
       CASE WHEN a.is_little THEN nullif(a.type, '') END, CASE WHEN a.is_little THEN a.value END,
       CASE WHEN a.is_little THEN a.headers END, CASE WHEN a.is_little THEN a.timestamp_ms END
FROM (
    SELECT b.*, sum(coalesce(octet_length(b.value), 0) + coalesce(octet_length(b.key), 0)
                    + coalesce(octet_length(b.headers), 0) + 64) OVER () <= :hand_over::bigint AS is_little
    FROM added b) AS a;

-- == For pipelines: read by their own drivers, as Arrow

-- name: arrow_ask
-- Passes the request as settings that end with the transaction; reads and locks nothing. The driver can
-- stream a query without parameters (COPY): three times as fast, and in bounded memory.
SELECT set_config('penstock.topic_id', $1, true), set_config('penstock.partitions', $2, true),
       set_config('penstock.starts', $3, true), set_config('penstock.ends', $4, true),
       set_config('penstock.key', $5, true), set_config('penstock.value', $6, true),
       set_config('penstock.headers', $7, true);

-- name: arrow_fetch
-- Records of several partitions, a range of offsets each (see `arrow_ask`), except erased ones; walks the primary key,
-- locks nothing. OFFSET 0 makes the settings a row that is read once: else each setting is looked up for each record.
SELECT l.partition, l."offset", nullif(l.type, '') AS type, l.timestamp_ms,
       CASE WHEN asked.key THEN l.key END AS key,
       CASE WHEN asked.value THEN l.value END AS value,
       CASE WHEN asked.headers THEN l.headers END AS headers
FROM (SELECT current_setting('penstock.topic_id')::integer AS topic_id, current_setting('penstock.key')::boolean AS key,
             current_setting('penstock.value')::boolean AS value, current_setting('penstock.headers')::boolean AS headers
      OFFSET 0) AS asked
CROSS JOIN unnest(string_to_array(current_setting('penstock.partitions'), ',')::integer[],
                  string_to_array(current_setting('penstock.starts'), ',')::bigint[],
                  string_to_array(current_setting('penstock.ends'), ',')::bigint[]) AS w (partition, low, high)
CROSS JOIN LATERAL (
    SELECT g.* FROM penstock_log g
    WHERE g.topic_id = asked.topic_id AND g.partition = w.partition
      AND g."offset" >= w.low AND g."offset" < w.high AND g.type <> 'penstock.erased'
    ORDER BY g."offset"
) AS l;

-- name: arrow_starts
-- The first offset kept of each partition of a topic (see `arrow_ask`); walks the primary key, locks nothing.
SELECT partition, start_offset FROM penstock_head WHERE topic_id = current_setting('penstock.topic_id')::integer;

-- name: kafka_producer_add
-- Add a producer with its id; locks nothing. OVERRIDING, because the identity column would number its rows itself.
INSERT INTO penstock_kafka_producer (id, epoch, transactional_id, timeout_ms, used_ms)
OVERRIDING SYSTEM VALUE
VALUES (:id, 0, :transactional_id, :timeout_ms, now_ms(:now_ms));
