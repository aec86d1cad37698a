-- The statements of this room for every engine, in the neutral SQL that database/statements.py describes.
-- Locks are for engines with several writers: in SQLite there is one write transaction at a time.

-- == Records

-- name: append
-- Add one record at an offset taken under its head's lock.
INSERT INTO penstock_log (topic_id, partition, "offset", id, key, type, value, headers, timestamp_ms, owner)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: at
-- Records at some positions, in order, bare or whole; walks the primary key once for each, locks nothing.
SELECT l.partition, l."offset", l.id, l.key, nullif(l.type, ''), CASE WHEN NOT :bare THEN l.value END,
       CASE WHEN NOT :bare THEN l.headers END, l.timestamp_ms, l.owner
FROM rows(:places, partition integer, place bigint) AS w
CROSS JOIN penstock_log l ON l.topic_id = :topic_id AND l.partition = w.partition AND l."offset" = w.place
ORDER BY l.partition, l."offset";

-- name: times_at
-- Publishing times of the records at some positions of several topics; walks the primary key once for each,
-- locks nothing.
SELECT l.topic_id, l.partition, l."offset", l.timestamp_ms
FROM rows(:places, topic_id integer, partition integer, place bigint) AS w
CROSS JOIN penstock_log l ON l.topic_id = w.topic_id AND l.partition = w.partition AND l."offset" = w.place;

-- name: bounds
-- The first offset kept and the next to be assigned; walks the primary key, locks nothing.
SELECT start_offset, next_offset FROM penstock_head WHERE topic_id = :topic_id AND partition = :partition;

-- name: passed
-- Cursors of handler groups in a partition, with the bitmaps of records done behind them; walks the groups
-- and, for each, the primary key of the cursors, locks nothing.
SELECT c."offset", c.passed FROM penstock_cursor c JOIN penstock_group g ON g.id = c.group_id
WHERE c.topic_id = :topic_id AND c.partition = :partition AND g.kind = 'handler';

-- name: find_id
-- A record by its id within a range of offsets of some partitions; walks the primary key once for each range, locks nothing.
SELECT l.partition, l."offset", l.id, l.key, nullif(l.type, ''), NULL, NULL, l.timestamp_ms
FROM rows(:ranges, partition integer, low bigint, high bigint) AS w
CROSS JOIN penstock_log l ON l.topic_id = :topic_id AND l.partition = w.partition
 AND l."offset" >= w.low AND l."offset" < w.high
WHERE l.id = :id LIMIT 1;

-- name: first_offsets
-- The first offset held at or after a position of some partitions; walks the primary key once for each, locks nothing.
SELECT partition, "offset" FROM (
    SELECT w.partition,
           (SELECT l."offset" FROM penstock_log l
            WHERE l.topic_id = :topic_id AND l.partition = w.partition AND l."offset" >= w.low
            ORDER BY l."offset" LIMIT 1) AS "offset"
    FROM rows(:places, partition integer, low bigint) AS w) AS found
WHERE "offset" IS NOT NULL;

-- name: owned
-- Some records with an owner tag, in any order, without values and headers; walks ix_penstock_log_owner,
-- locks nothing: a hint, checked again when they are erased.
SELECT topic_id, partition, "offset", id, key, nullif(type, ''), NULL, NULL, timestamp_ms, owner
FROM penstock_log WHERE owner = :owner LIMIT :limit;

-- name: owned_count
-- The number of records with an owner tag; walks ix_penstock_log_owner, locks nothing.
SELECT count(*) FROM penstock_log WHERE owner = :owner;

-- name: find_key
-- The records of a key within a range of offsets of a partition, in order; walks the primary key, locks nothing.
SELECT partition, "offset", id, key, nullif(type, ''), NULL, NULL, timestamp_ms FROM penstock_log
WHERE topic_id = :topic_id AND partition = :partition AND "offset" >= :low AND "offset" < :high AND key = :key
ORDER BY "offset" LIMIT :limit;

-- name: find_key_last
-- The last records of a key within a range of offsets of a partition, newest first, with headers; walks the
-- primary key backwards, locks nothing.
SELECT partition, "offset", id, key, nullif(type, ''), NULL, headers, timestamp_ms FROM penstock_log
WHERE topic_id = :topic_id AND partition = :partition AND "offset" >= :low AND "offset" < :high AND key = :key
ORDER BY "offset" DESC LIMIT :limit;

-- name: find_key_in
-- The records of a key within several ranges of offsets, in order; walks the primary key once for each, locks nothing.
SELECT l.partition, l."offset", l.id, l.key, nullif(l.type, ''), NULL, NULL, l.timestamp_ms
FROM rows(:ranges, partition integer, low bigint, high bigint) AS w
CROSS JOIN penstock_log l ON l.topic_id = :topic_id AND l.partition = w.partition
    AND l."offset" >= w.low AND l."offset" < w.high AND l.key = :key
ORDER BY l.partition, l."offset";

-- name: search_starts
-- Where to search each partition of a topic for a record of some time: its bounds, the last sparse time mark
-- before it, and the time of the first record kept if some are gone; walks the primary keys, locks nothing.
SELECT h.partition, h.start_offset, h.next_offset,
       (SELECT t."offset" FROM penstock_log_time t
        WHERE t.topic_id = h.topic_id AND t.partition = h.partition AND t.max_ms < :time_ms::bigint
        ORDER BY t."offset" DESC LIMIT 1) AS mark,
       CASE WHEN h.start_offset > 0 THEN
           (SELECT l.timestamp_ms FROM penstock_log l
            WHERE l.topic_id = h.topic_id AND l.partition = h.partition ORDER BY l."offset" LIMIT 1) END AS first_ms
FROM penstock_head h WHERE h.topic_id = :topic_id AND h.next_offset > 0 ORDER BY h.partition;

-- == Heads: the bounds of each partition

-- name: fence_slots
-- Lock, in slot order, those slots that the owner still holds in these epochs; only they may be moved.
SELECT s.slot
FROM rows(:owned, slot smallint, epoch bigint) AS o
JOIN penstock_slot s ON s.slot = o.slot AND s.epoch = o.epoch
WHERE s.owner = :owner
ORDER BY s.slot
FOR UPDATE OF s;

-- name: heads_create
-- Create the heads of a topic's partitions; walks the primary key, waits for a transaction that creates the same.
-- without on_conflict: instead(heads_create_missing)
INSERT INTO penstock_head (topic_id, partition)
WITH RECURSIVE numbers (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM numbers WHERE n < :partitions - 1)
SELECT :topic_id, n FROM numbers WHERE true
ON CONFLICT DO NOTHING;

-- name: heads_create_missing
-- The second form of heads_create; walks the primary key.
INSERT INTO penstock_head (topic_id, partition)
WITH RECURSIVE numbers (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM numbers WHERE n < :partitions - 1)
SELECT :topic_id, n FROM numbers WHERE NOT EXISTS (
    SELECT 1 FROM penstock_head h WHERE h.topic_id = :topic_id AND h.partition = n);

-- name: heads_delete
-- Remove a topic's heads; walks the primary key.
DELETE FROM penstock_head WHERE topic_id = :topic_id;

-- name: heads_list
-- Bounds of the partitions of a topic that ever held a record; walks the primary key, locks nothing.
SELECT partition, start_offset, next_offset FROM penstock_head WHERE topic_id = :topic_id AND next_offset > 0;

-- name: heads_lock
-- Lock some heads, always in this order (any other order deadlocks), and read their next offsets; walks the primary key.
SELECT h.topic_id, h.partition, h.next_offset, h.max_ms
FROM rows(:heads, topic_id integer, partition integer) AS w
JOIN penstock_head h ON h.topic_id = w.topic_id AND h.partition = w.partition
ORDER BY h.topic_id, h.partition
FOR UPDATE OF h;

-- name: heads_lock_free
-- The same for unlocked heads only; never waits.
SELECT h.topic_id, h.partition, h.next_offset, h.max_ms
FROM rows(:heads, topic_id integer, partition integer) AS w
JOIN penstock_head h ON h.topic_id = w.topic_id AND h.partition = w.partition
ORDER BY h.topic_id, h.partition
FOR UPDATE OF h SKIP LOCKED;

-- name: heads_raise
-- Raise heads by the records added to them; their locks are held already.
-- without update_from: for_each(raises, heads_raise_one)
UPDATE penstock_head AS h
SET next_offset = h.next_offset + w.added, max_ms = greatest(h.max_ms, w.max_ms)
FROM rows(:raises, topic_id integer, partition integer, added bigint, max_ms bigint) AS w
WHERE h.topic_id = w.topic_id AND h.partition = w.partition;

-- name: heads_raise_one
-- The second form of heads_raise, for one head; walks the primary key; its lock is held already.
UPDATE penstock_head SET next_offset = next_offset + :added, max_ms = greatest(max_ms, :max_ms)
WHERE topic_id = :topic_id AND partition = :partition;

-- name: heads_all
-- Bounds of all partitions of a topic; walks the primary key, locks nothing.
SELECT partition, start_offset, next_offset FROM penstock_head WHERE topic_id = :topic_id ORDER BY partition;

-- name: heads_of_topics
-- Bounds of all partitions of some topics; walks the primary key, locks nothing.
SELECT topic_id, partition, start_offset, next_offset FROM penstock_head WHERE topic_id = ANY(:topics::integer[])
ORDER BY topic_id, partition;

-- name: head_put_end
-- Record the end of a partition whose records are in files; walks the primary key, locks that head.
UPDATE penstock_head SET next_offset = :end WHERE topic_id = :topic_id AND partition = :partition;

-- name: head_put_start
-- Record the start of a partition whose records are in files; walks the primary key, locks that head.
UPDATE penstock_head SET start_offset = :start
WHERE topic_id = :topic_id AND partition = :partition AND start_offset < :start;

-- name: heads_pin
-- Lock some partitions against appends and trims until the transaction ends; walks the primary key, locks the
-- rows in order.
SELECT partition FROM penstock_head WHERE topic_id = :topic_id AND partition = ANY(:partitions::integer[])
ORDER BY partition FOR UPDATE;

-- name: heads_to_end
-- Move the start of each partition of a topic to its end; walks the primary key. The heads are locked already.
UPDATE penstock_head SET start_offset = next_offset WHERE topic_id = :topic_id;

-- == Topics

-- name: times_add
-- Add sparse time marks: the latest time of the records below an offset; the heads' locks are held already.
-- without on_conflict: instead(times_add_missing)
INSERT INTO penstock_log_time (topic_id, partition, "offset", max_ms)
SELECT m.topic_id, m.partition, m.place, m.max_ms
FROM rows(:marks, topic_id integer, partition integer, place bigint, max_ms bigint) AS m
WHERE true
ON CONFLICT DO NOTHING;

-- name: times_add_missing
-- The second form of times_add; walks the primary key. The heads' locks are held already.
INSERT INTO penstock_log_time (topic_id, partition, "offset", max_ms)
SELECT m.topic_id, m.partition, m.place, m.max_ms
FROM rows(:marks, topic_id integer, partition integer, place bigint, max_ms bigint) AS m
WHERE NOT EXISTS (
    SELECT 1 FROM penstock_log_time t
    WHERE t.topic_id = m.topic_id AND t.partition = m.partition AND t."offset" = m.place);

-- name: times_delete
-- Remove a topic's time marks; walks the primary key.
DELETE FROM penstock_log_time WHERE topic_id = :topic_id;

-- name: topic_create
-- Create a topic unless the name is taken; locks the name, waits for a transaction that creates the same.
-- without on_conflict: instead(topic_create_missing)
INSERT INTO penstock_topic (name, partitions, partitioner, created_ms)
VALUES (:name, :partitions, :partitioner, now_ms(:now_ms))
ON CONFLICT (name) DO NOTHING;

-- name: topic_create_missing
-- The second form of topic_create; walks the unique index on name.
INSERT INTO penstock_topic (name, partitions, partitioner, created_ms)
SELECT :name, :partitions, :partitioner, now_ms(:now_ms)
WHERE NOT EXISTS (SELECT 1 FROM penstock_topic t WHERE t.name = :name);

-- name: topic_delete
-- Remove a topic's name; locks its row, after any running move or append has ended.
DELETE FROM penstock_topic WHERE id = :topic_id;

-- name: topic_find
-- Topics by name; walks the unique index on name, locks nothing.
SELECT id, name, partitions, partitioner, created_ms, generation, retention_ms, retention_bytes, retention_records
FROM penstock_topic WHERE name = ANY(:names::text[]);

-- name: topic_keep
-- Topics by name; walks the unique index on name. Locks them against deletion until the transaction ends.
SELECT id, name, partitions, partitioner, created_ms, generation, retention_ms, retention_bytes, retention_records
FROM penstock_topic WHERE name = ANY(:names::text[])
ORDER BY id FOR KEY SHARE;

-- name: topic_keep_free
-- The same for topics without an exclusive lock; never waits.
SELECT id, name, partitions, partitioner, created_ms, generation, retention_ms, retention_bytes, retention_records
FROM penstock_topic WHERE name = ANY(:names::text[])
ORDER BY id FOR KEY SHARE SKIP LOCKED;

-- name: topic_lock
-- Topics by name; walks the unique index on name. Locks them exclusively, after transactions with a shared
-- lock have ended.
SELECT id, name, partitions, partitioner, created_ms, generation, retention_ms, retention_bytes, retention_records
FROM penstock_topic WHERE name = ANY(:names::text[])
ORDER BY id FOR UPDATE;

-- name: topic_list
-- All topics; reads the table.
SELECT id, name, partitions, partitioner, created_ms, generation, retention_ms, retention_bytes, retention_records
FROM penstock_topic ORDER BY name;

-- name: topic_grow
-- Give a topic more partitions; walks the primary key. The row is locked already.
UPDATE penstock_topic SET partitions = :partitions, generation = generation + 1 WHERE id = :topic_id;

-- name: generation_add
-- Record the ends of a topic's partitions before it grows; walks the primary key. Topic and heads are locked already.
INSERT INTO penstock_generation (topic_id, generation, partition, end_offset)
SELECT topic_id, :generation, partition, next_offset FROM penstock_head WHERE topic_id = :topic_id;

-- name: generations_delete
-- Remove the growths of a topic; walks the primary key.
DELETE FROM penstock_generation WHERE topic_id = :topic_id;

-- name: generations_read
-- The ends of a topic's partitions at each of its growths; walks the primary key, locks nothing.
SELECT generation, end_offset FROM penstock_generation WHERE topic_id = :topic_id ORDER BY generation, partition;

-- name: topic_retain
-- Set some of the retention limits of a topic; the others keep the values of the locked row. Walks the
-- primary key, locks the row.
UPDATE penstock_topic
SET retention_ms = CASE WHEN 'age_ms' = ANY(:only::text[]) THEN :age_ms::bigint ELSE retention_ms END,
    retention_bytes = CASE WHEN 'bytes' = ANY(:only::text[]) THEN :bytes::bigint ELSE retention_bytes END,
    retention_records = CASE WHEN 'records' = ANY(:only::text[]) THEN :records::bigint ELSE retention_records END
WHERE id = :topic_id;

-- == Retention

-- name: offsets_at
-- For some ranges of offsets, the first record at or after a time, or the end of the range; walks the primary
-- key from the last sparse mark before it, locks nothing.
SELECT w.partition,
       coalesce((SELECT l."offset" FROM penstock_log l
        WHERE l.topic_id = :topic_id AND l.partition = w.partition AND l."offset" < w.high
          AND l."offset" >= greatest(w.low, coalesce((
                SELECT t."offset" FROM penstock_log_time t
                WHERE t.topic_id = :topic_id AND t.partition = w.partition AND t."offset" <= w.high
                  AND t.max_ms < :cutoff_ms
                ORDER BY t."offset" DESC LIMIT 1), 0))
          AND l.timestamp_ms >= :cutoff_ms
        ORDER BY l."offset" LIMIT 1), w.high)
FROM rows(:ranges, partition integer, low bigint, high bigint) AS w;

-- name: sizes
-- The bytes of some ranges of offsets, as a read counts them; walks the primary key, locks nothing.
SELECT w.partition,
       (SELECT coalesce(sum(coalesce(octet_length(l.value), 0) + coalesce(octet_length(l.key), 0)
                  + coalesce(octet_length(l.headers), 0) + 64), 0)::bigint
        FROM penstock_log l
        WHERE l.topic_id = :topic_id AND l.partition = w.partition AND l."offset" >= w.low AND l."offset" < w.high)
FROM rows(:ranges, partition integer, low bigint, high bigint) AS w;

-- name: reach
-- For some ranges of offsets, the offset after the oldest records that together have a number of bytes; walks
-- the primary key, locks nothing.
SELECT w.partition,
       coalesce((SELECT max(s."offset") + 1 FROM (
            SELECT l."offset", sum(coalesce(octet_length(l.value), 0) + coalesce(octet_length(l.key), 0)
                  + coalesce(octet_length(l.headers), 0) + 64)
                       OVER (ORDER BY l."offset" ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before
            FROM penstock_log l
            WHERE l.topic_id = :topic_id AND l.partition = w.partition AND l."offset" >= w.low
              AND l."offset" < w.high) AS s
        WHERE coalesce(s.before, 0) < w.bytes), w.high)
FROM rows(:ranges, partition integer, low bigint, high bigint, bytes bigint) AS w;

-- name: trim_left
-- Whether records of some ranges still exist, changed by others while they were deleted; walks the primary
-- key, locks nothing.
SELECT l.partition
FROM rows(:ranges, partition integer, low bigint, high bigint) AS w
CROSS JOIN penstock_log l ON l.topic_id = :topic_id AND l.partition = w.partition
 AND l."offset" >= w.low AND l."offset" < w.high
LIMIT 1;

-- name: trim_raise
-- Raise the starts of partitions, last and shortly before the commit; walks the primary key, locks those heads.
-- without update_from: for_each(ranges, trim_raise_one)
UPDATE penstock_head AS h SET start_offset = w.high
FROM rows(:ranges, partition integer, low bigint, high bigint) AS w
WHERE h.topic_id = :topic_id AND h.partition = w.partition AND h.start_offset < w.high;

-- name: trim_raise_one
-- The second form of trim_raise, for one head; walks the primary key, locks that head.
UPDATE penstock_head SET start_offset = :high
WHERE topic_id = :topic_id AND partition = :partition AND start_offset < :high;

-- name: trim_times
-- Remove the time marks that cover only deleted records; walks the primary key.
DELETE FROM penstock_log_time WHERE (topic_id, partition, "offset") IN (
    SELECT t.topic_id, t.partition, t."offset" FROM rows(:ranges, partition integer, low bigint, high bigint) AS w
    CROSS JOIN penstock_log_time t ON t.topic_id = :topic_id AND t.partition = w.partition AND t."offset" <= w.high);

-- == Holds: readers that hold retention back, and are not groups

-- name: hold_put
-- Set the offsets from which on a reader needs a topic; walks the primary key, locks those rows.
INSERT INTO penstock_hold (reader, topic_id, partition, "offset")
SELECT :reader, :topic_id, h.partition, h.place
FROM rows(:holds, partition integer, place bigint) AS h
WHERE true;

-- name: holds_grow
-- Extend the holds on a topic to its new partitions; walks the holds. The topic is locked already.
INSERT INTO penstock_hold (reader, topic_id, partition, "offset")
SELECT DISTINCT h.reader, h.topic_id, n.partition, n.place
FROM rows(:holds, partition integer, place bigint) AS n
CROSS JOIN penstock_hold h
WHERE h.topic_id = :topic_id;

-- name: holds_delete
-- Remove a reader's hold on a topic, or without a reader all holds; walks the primary key, locks those rows.
DELETE FROM penstock_hold WHERE topic_id = :topic_id AND (:reader::text IS NULL OR reader = :reader::text);

-- name: holds_list
-- The holds on a topic, by reader; walks the primary key, locks nothing.
SELECT reader, partition, "offset" FROM penstock_hold WHERE topic_id = :topic_id ORDER BY reader, partition;

-- name: holds_all
-- The holds on all topics; walks the whole table, which has a row for each partition of few readers, locks nothing.
SELECT topic_id, reader, partition, "offset" FROM penstock_hold ORDER BY topic_id, reader, partition;

-- == Producers: the last batch of each, so that it is added once

-- name: producers_lock
-- The last batches of some producers, locked in order until the transaction ends; walks the primary key.
SELECT id, epoch, sequence, topic_id, positions, ids FROM penstock_producer WHERE id = ANY(:ids::text[])
ORDER BY id FOR UPDATE;

-- name: producer_find
-- The last batch of a producer; walks the primary key, locks nothing.
SELECT epoch, sequence, topic_id, positions, ids FROM penstock_producer WHERE id = :id;

-- name: producers_claim
-- Add placeholder rows for new producers until their first batches are recorded, so that two transactions that begin as
-- the same one are serialized; walks the primary key, waits for a transaction that adds the same.
-- without on_conflict: for_each(producers, producers_put_insert)
INSERT INTO penstock_producer (id, epoch, sequence, topic_id, positions, ids)
SELECT p.id, p.epoch, p.sequence, p.topic_id, p.positions, p.ids
FROM rows(:producers, id text, epoch bigint, sequence bigint, topic_id integer, positions text, ids text) AS p
WHERE true
ON CONFLICT (id) DO NOTHING;

-- name: producers_put
-- Record the last batches of producers; walks the primary key. The heads' locks are held already.
-- without on_conflict: update_or_insert_each(producers, producers_put_update, producers_put_insert)
INSERT INTO penstock_producer (id, epoch, sequence, topic_id, positions, ids)
SELECT p.id, p.epoch, p.sequence, p.topic_id, p.positions, p.ids
FROM rows(:producers, id text, epoch bigint, sequence bigint, topic_id integer, positions text, ids text) AS p
WHERE true
ON CONFLICT (id) DO UPDATE SET epoch = excluded.epoch, sequence = excluded.sequence, topic_id = excluded.topic_id,
                               positions = excluded.positions, ids = excluded.ids;

-- name: producers_put_update
-- The second form of producers_put, for an existing one; walks the primary key, locks that row.
UPDATE penstock_producer SET epoch = :epoch, sequence = :sequence, topic_id = :topic_id, positions = :positions,
                             ids = :ids
WHERE id = :id;

-- name: producers_put_insert
-- The second form of producers_put, for a new one; walks the primary key. The heads' locks are held already.
INSERT INTO penstock_producer (id, epoch, sequence, topic_id, positions, ids)
VALUES (:id, :epoch, :sequence, :topic_id, :positions, :ids);

-- name: producers_trim
-- Remove the oldest producers with a prefix; walks that part of the primary key, once an hour, locks the rows it deletes.
DELETE FROM penstock_producer WHERE id IN (
    SELECT id FROM penstock_producer WHERE id >= :low AND id < :high AND epoch < :epoch ORDER BY id LIMIT :limit);

-- == Through the Kafka port: producers, their last batches, and records of open transactions

-- name: heads_every
-- Bounds of all partitions of all topics; reads the table, which has a small row for each, locks nothing.
SELECT topic_id, partition, start_offset, next_offset FROM penstock_head;

-- name: kafka_producers_lock
-- Some producers, locked in order until the transaction ends; walks the primary key.
SELECT id, epoch, state, partitions, transactional_id FROM penstock_kafka_producer WHERE id = ANY(:ids::bigint[])
ORDER BY id FOR UPDATE;

-- name: kafka_producers_keep
-- Some producers, with shared locks in order until the transaction ends. Walks the primary key.
SELECT id, epoch, state, partitions, transactional_id FROM penstock_kafka_producer WHERE id = ANY(:ids::bigint[])
ORDER BY id FOR SHARE;

-- name: kafka_producers_keep_free
-- The same for unlocked producers only; never waits.
SELECT id, epoch, state, partitions, transactional_id FROM penstock_kafka_producer WHERE id = ANY(:ids::bigint[])
ORDER BY id FOR SHARE SKIP LOCKED;

-- name: kafka_sequences
-- The last batches of some producers in some partitions; walks the primary keys once for each, locks nothing: the heads'
-- locks are held already.
SELECT s.topic_id, s.partition, s.producer_id, s.epoch, s.batches, p.state
FROM rows(:places, topic_id integer, partition integer, producer_id bigint) AS w
CROSS JOIN penstock_kafka_sequence s
 ON s.topic_id = w.topic_id AND s.partition = w.partition AND s.producer_id = w.producer_id
LEFT JOIN penstock_kafka_producer p ON p.id = s.producer_id;

-- name: kafka_sequences_put
-- Write down the last batches of producers; walks the primary key. The heads' locks are held already.
-- without on_conflict: update_or_insert_each(sequences, kafka_sequences_put_update, kafka_sequences_put_insert)
INSERT INTO penstock_kafka_sequence (topic_id, partition, producer_id, epoch, batches, used_ms)
SELECT s.topic_id, s.partition, s.producer_id, s.epoch, s.batches, now_ms(:now_ms)
FROM rows(:sequences, topic_id integer, partition integer, producer_id bigint, epoch integer, batches text) AS s
WHERE true
ON CONFLICT (topic_id, partition, producer_id)
DO UPDATE SET epoch = excluded.epoch, batches = excluded.batches, used_ms = excluded.used_ms;

-- name: kafka_sequences_put_update
-- The second form of kafka_sequences_put, for an existing one; walks the primary key, locks that row.
UPDATE penstock_kafka_sequence SET epoch = :epoch, batches = :batches, used_ms = now_ms(:now_ms)
WHERE topic_id = :topic_id AND partition = :partition AND producer_id = :producer_id;

-- name: kafka_sequences_put_insert
-- The second form of kafka_sequences_put, for a new one; walks the primary key. The heads' locks are held already.
INSERT INTO penstock_kafka_sequence (topic_id, partition, producer_id, epoch, batches, used_ms)
VALUES (:topic_id, :partition, :producer_id, :epoch, :batches, now_ms(:now_ms));

-- name: kafka_sequences_of
-- The producers of a partition, with their last batches; walks the primary key, locks nothing.
SELECT s.producer_id, s.epoch, s.batches, s.used_ms, p.state, p.partitions
FROM penstock_kafka_sequence s LEFT JOIN penstock_kafka_producer p ON p.id = s.producer_id
WHERE s.topic_id = :topic_id AND s.partition = :partition ORDER BY s.producer_id;

-- name: kafka_sequences_expire
-- Remove the batches of producers silent for long; reads the table, locks those rows.
DELETE FROM penstock_kafka_sequence WHERE used_ms < now_ms(:now_ms) - :age_ms;

-- name: kafka_sequences_forget
-- Remove the batches of deleted topics; reads the table, locks those rows.
DELETE FROM penstock_kafka_sequence WHERE topic_id <> ALL(:topics::integer[]);

-- name: kafka_producer_add
-- Add a producer with its id; locks nothing.
INSERT INTO penstock_kafka_producer (id, epoch, transactional_id, timeout_ms, used_ms)
VALUES (:id, 0, :transactional_id, :timeout_ms, now_ms(:now_ms));

-- name: kafka_producer_of
-- The producer of a transactional id, locked until the transaction ends; walks the unique index.
SELECT id, epoch, state, partitions, timeout_ms, started_ms FROM penstock_kafka_producer
WHERE transactional_id = :transactional_id FOR UPDATE;

-- name: kafka_producer_put
-- Update the state of a producer; walks the primary key. Its lock is held already.
UPDATE penstock_kafka_producer
SET epoch = :epoch, state = :state, partitions = :partitions, timeout_ms = :timeout_ms,
    started_ms = CASE WHEN :state NOT IN ('open', 'committing', 'aborting') THEN NULL
                      ELSE coalesce(started_ms, now_ms(:now_ms)) END,
    used_ms = now_ms(:now_ms)
WHERE id = :id;

-- name: kafka_producer_rename
-- Release a transactional id for another producer, because this one's epochs are used up; walks the primary
-- key. Its lock is held already.
UPDATE penstock_kafka_producer SET transactional_id = NULL, state = 'empty', partitions = '[]', started_ms = NULL
WHERE id = :id;

-- name: kafka_producers_late
-- Transactions past their time-out, and decided ones that are not finished; walks
-- ix_penstock_kafka_producer_started, locks nothing.
SELECT transactional_id FROM penstock_kafka_producer
WHERE started_ms IS NOT NULL AND transactional_id IS NOT NULL
  AND (started_ms + timeout_ms < now_ms(:now_ms) OR state IN ('committing', 'aborting'))
ORDER BY started_ms LIMIT 100;

-- name: kafka_producers_expire
-- Remove producers silent for long without an open transaction; reads the table, locks those rows.
DELETE FROM penstock_kafka_producer WHERE used_ms < now_ms(:now_ms) - :age_ms AND started_ms IS NULL;

-- name: kafka_transactions
-- All transactional ids; reads the table, locks nothing.
SELECT transactional_id, id, state, started_ms, now_ms(:now_ms) FROM penstock_kafka_producer
WHERE transactional_id IS NOT NULL ORDER BY transactional_id;

-- name: pending_add
-- Hold back one record of an open transaction; its producer's lock is held already.
INSERT INTO penstock_pending (producer_id, topic_id, partition, id, key, type, value, headers, timestamp_ms)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: pending_counts
-- The number of records of an open transaction, by partition; walks the records of its producer, which is locked.
SELECT p.topic_id, p.partition, count(*), max(p.timestamp_ms) FROM penstock_pending p
WHERE p.producer_id = :producer_id AND EXISTS (SELECT 1 FROM penstock_topic t WHERE t.id = p.topic_id)
GROUP BY p.topic_id, p.partition ORDER BY p.topic_id, p.partition;

-- name: pending_move
-- Copy the records of a transaction into the log, numbered from the ends of its partitions; producer and heads are locked
-- already. Walks the records of the producer.
INSERT INTO penstock_log (topic_id, partition, "offset", id, key, type, value, headers, timestamp_ms)
SELECT p.topic_id, p.partition,
       h.next_offset + row_number() OVER (PARTITION BY p.topic_id, p.partition ORDER BY p.seq) - 1,
       p.id, p.key, p.type, p.value, p.headers, p.timestamp_ms
FROM penstock_pending p
JOIN penstock_head h ON h.topic_id = p.topic_id AND h.partition = p.partition
WHERE p.producer_id = :producer_id;

-- name: pending_topics
-- Some topics by id, locked against growth and deletion until the transaction ends; walks the primary key.
SELECT id, name, partitions, partitioner, created_ms, generation, retention_ms, retention_bytes, retention_records
FROM penstock_topic WHERE id = ANY(:topics::integer[])
ORDER BY id FOR KEY SHARE;

-- name: pending_keys
-- Some keyed records of a transaction for a topic, in order; walks the records of its producer, which is locked.
SELECT seq, partition, key FROM penstock_pending
WHERE producer_id = :producer_id AND seq > :after AND topic_id = :topic_id AND key IS NOT NULL
ORDER BY seq LIMIT :limit;

-- name: pending_place
-- Move records of a transaction to other partitions; walks the primary key. Their producer is locked already.
-- without update_from: for_each(places, pending_place_one)
UPDATE penstock_pending AS p SET partition = w.partition
FROM rows(:places, seq bigint, partition integer) AS w
WHERE p.producer_id = :producer_id AND p.seq = w.seq;

-- name: pending_place_one
-- The second form of pending_place, for one record; walks the primary key. Its producer is locked already.
UPDATE penstock_pending SET partition = :partition WHERE producer_id = :producer_id AND seq = :seq;

-- name: pending_delete
-- Delete the records of a transaction; walks those of its producer, which is locked.
DELETE FROM penstock_pending WHERE producer_id = :producer_id;

-- == Writes in parts, released as a whole

-- name: write_part_begin
-- Begin a part of a write; walks the primary key, locks nothing else.
INSERT INTO penstock_write_part (id, application, epoch, touched_ms)
VALUES (:id, :application, :epoch, now_ms(:now_ms));

-- name: write_part_touch
-- Renew the time of a part that gets more records, and lock it against removal; walks the primary key.
UPDATE penstock_write_part SET touched_ms = now_ms(:now_ms) WHERE id = :id;

-- name: write_parts_lock
-- The existing ones of some parts, locked in order until the transaction ends; walks the primary key.
SELECT id FROM penstock_write_part WHERE id = ANY(:ids::bigint[]) ORDER BY id FOR UPDATE;

-- name: write_parts_old
-- Some parts unchanged for long, locked in order; reads the table, which has a row for each unreleased part.
SELECT id FROM penstock_write_part WHERE touched_ms < :before_ms ORDER BY id LIMIT :limit FOR UPDATE;

-- name: write_parts_delete
-- Delete parts; walks the primary key. They are locked already.
DELETE FROM penstock_write_part WHERE id = ANY(:ids::bigint[]);

-- name: write_epoch_claim
-- Add a placeholder row for a new application until its first write is released, so that two releases are
-- serialized; walks the primary key, waits for a transaction that adds the same.
-- without on_conflict: instead(write_epoch_add)
INSERT INTO penstock_write_epoch (application, epoch, content, released_ms)
VALUES (:application, -1, '', 0)
ON CONFLICT (application) DO NOTHING;

-- name: write_epoch_add
-- The second form of write_epoch_claim; walks the primary key, and fails if another transaction adds the same.
INSERT INTO penstock_write_epoch (application, epoch, content, released_ms)
SELECT :application, -1, '', 0
WHERE NOT EXISTS (SELECT 1 FROM penstock_write_epoch WHERE application = :application);

-- name: write_epoch_lock
-- The last released write of an application, locked until the transaction ends; walks the primary key.
SELECT epoch, content FROM penstock_write_epoch WHERE application = :application FOR UPDATE;

-- name: write_epoch_put
-- Record the last released write of an application; walks the primary key. Its lock is held already.
UPDATE penstock_write_epoch SET epoch = :epoch, content = :content, released_ms = now_ms(:now_ms)
WHERE application = :application;

-- name: parts_counts
-- The number of records of some parts, by partition; walks their records. The parts are locked already.
SELECT p.topic_id, p.partition, count(*), max(p.timestamp_ms) FROM penstock_pending p
WHERE p.producer_id = ANY(:ids::bigint[])
GROUP BY p.topic_id, p.partition ORDER BY p.topic_id, p.partition;

-- name: parts_move
-- Copy the records of some parts into the log, numbered from the ends of their partitions, one part after the
-- other; walks their records. Parts and heads are locked already.
INSERT INTO penstock_log (topic_id, partition, "offset", id, key, type, value, headers, timestamp_ms)
SELECT p.topic_id, p.partition,
       h.next_offset + row_number() OVER (PARTITION BY p.topic_id, p.partition ORDER BY w.place, p.seq) - 1,
       p.id, p.key, p.type, p.value, p.headers, p.timestamp_ms
FROM rows(:parts, id bigint, place integer) AS w
JOIN penstock_pending p ON p.producer_id = w.id
JOIN penstock_head h ON h.topic_id = p.topic_id AND h.partition = p.partition;

-- name: parts_empty
-- Delete the records of some parts; walks them. The parts are locked already.
DELETE FROM penstock_pending WHERE producer_id = ANY(:ids::bigint[]);

-- == Configs of topics

-- name: topic_configs
-- The configs of some topics, set through the Kafka port; walks the primary key, locks nothing.
SELECT topic_id, name, value FROM penstock_topic_config WHERE topic_id = ANY(:topics::integer[]) ORDER BY topic_id, name;

-- name: topics_with_config
-- The topics with a certain config; reads the table, which has few rows, and their topics by id, locks nothing.
SELECT t.name, c.value FROM penstock_topic_config c JOIN penstock_topic t ON t.id = c.topic_id WHERE c.name = :name;

-- name: topic_config_delete
-- Delete one config of a topic, or all; walks the primary key, locks those rows.
DELETE FROM penstock_topic_config WHERE topic_id = :topic_id AND (:name::text IS NULL OR name = :name::text);

-- name: topic_config_add
-- Add a config of a topic; an old value is deleted already. Locks nothing else.
INSERT INTO penstock_topic_config (topic_id, name, value) VALUES (:topic_id, :name, :value);

-- == The move: from staging into the log, in one statement

-- name: insert_scheduled
-- Copy scheduled rows into the log at their assigned offsets; walks the primary keys.
INSERT INTO penstock_log (topic_id, partition, "offset", id, key, type, value, headers, timestamp_ms, owner)
SELECT w.topic_id, w.partition, w.place, s.id, s.key, s.type, s.value, s.headers, s.timestamp_ms, s.owner
FROM rows(:places, slot smallint, seq bigint, topic_id integer, partition integer, place bigint) AS w
JOIN penstock_scheduled s ON s.seq = w.seq;

-- name: insert_staged
-- Copy staged rows into the log at their assigned offsets; walks the primary keys.
INSERT INTO penstock_log (topic_id, partition, "offset", id, key, type, value, headers, timestamp_ms, owner)
SELECT w.topic_id, w.partition, w.place, s.id, s.key, s.type, s.value, s.headers, s.timestamp_ms, s.owner
FROM rows(:places, slot smallint, seq bigint, topic_id integer, partition integer, place bigint) AS w
JOIN penstock_staged s ON s.slot = w.slot AND s.seq = w.seq;
