-- What PostgreSQL is told in its own way: locks in an order, LATERAL, and several steps in one statement.

-- == On the caller's connection: values in their order, `?`

-- name: schedule_many
-- Stage many events for the future in the caller's transaction and the caller's order; locks nothing.
INSERT INTO penstock_scheduled (slot, key_hash, topic, id, key, type, value, headers, timestamp_ms, owner, due_ms)
SELECT slot, key_hash, topic, id, key, type, value, headers, timestamp_ms, owner, due_ms
FROM unnest(?::smallint[], ?::integer[], ?::text[], ?::text[], ?::bytea[], ?::text[], ?::bytea[], ?::bytea[],
            ?::bigint[], ?::text[], ?::bigint[])
     WITH ORDINALITY AS e (slot, key_hash, topic, id, key, type, value, headers, timestamp_ms, owner, due_ms, place)
ORDER BY place;

-- name: stage_many
-- Stage many events in the caller's transaction and the caller's order: the sequence is asked in that order.
-- Locks nothing.
INSERT INTO penstock_staged (slot, key_hash, topic, id, key, type, value, headers, timestamp_ms, owner)
SELECT slot, key_hash, topic, id, key, type, value, headers, timestamp_ms, owner
FROM unnest(?::smallint[], ?::integer[], ?::text[], ?::text[], ?::bytea[], ?::text[], ?::bytea[], ?::bytea[],
            ?::bigint[], ?::text[])
     WITH ORDINALITY AS e (slot, key_hash, topic, id, key, type, value, headers, timestamp_ms, owner, place)
ORDER BY place;

-- name: token_drop_many
-- Remove tokens that were taken too long ago to count; walks the primary key, locks those rows in the given order, which
-- must be sorted.
DELETE FROM penstock_token
WHERE token = ANY(ARRAY(
    SELECT t.token
    FROM unnest(?::bytea[], ?::bigint[]) WITH ORDINALITY AS o (token, before_ms, place)
    CROSS JOIN LATERAL (
        SELECT f.token FROM penstock_token f WHERE f.token = o.token AND f.created_ms <= o.before_ms
        LIMIT 1 FOR UPDATE) AS t
    ORDER BY o.place));

-- name: token_find_many
-- The events that tokens stand for; walks the primary key, locks nothing.
SELECT token, id, created_ms FROM penstock_token WHERE token = ANY(?::bytea[]);

-- name: token_take_many
-- Take tokens in the caller's transaction, those that are free, in the given order: it must be sorted, since this waits
-- for transactions that have taken one of them and not ended.
INSERT INTO penstock_token (token, id, created_ms)
SELECT token, id, created_ms
FROM unnest(?::bytea[], ?::text[], ?::bigint[]) WITH ORDINALITY AS t (token, id, created_ms, place)
ORDER BY place
ON CONFLICT (token) DO NOTHING;

-- == The move

-- name: move_scheduled
-- Move scheduled rows into the log: number and insert only what the delete returned, then raise the heads by that.
-- Slots and heads are locked already, by this transaction; walks the primary keys.
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
-- Move staged rows into the log: number and insert only what the delete returned, then raise the heads by that.
-- Slots and heads are locked already, by this transaction; walks the primary keys.
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

-- name: pick_staged
-- The oldest staged rows of each of these slots, from the head of each; walks the primary key, locks nothing.
SELECT p.seq, p.slot, p.topic, p.key_hash, p.timestamp_ms
FROM unnest(:slots::smallint[]) AS o (slot)
CROSS JOIN LATERAL (
    SELECT seq, slot, topic, key_hash, timestamp_ms FROM penstock_staged s
    WHERE s.slot = o.slot
    ORDER BY s.seq LIMIT :per_slot) AS p
LIMIT :limit;

-- name: probe
-- Which of these slots have something to move; one probe of the primary key a slot, and the oldest due rows by
-- ix_penstock_scheduled_due, up to now: the clock is read once, in a subquery, or the whole index would be read.
-- A hint: nothing is locked.
SELECT o.slot FROM unnest(:slots::smallint[]) AS o (slot)
WHERE EXISTS (SELECT 1 FROM penstock_staged s WHERE s.slot = o.slot)
UNION
SELECT due.slot FROM (
    SELECT slot FROM penstock_scheduled
    WHERE due_ms <= now_ms(:now_ms)
      AND slot = ANY(:slots::smallint[])
    ORDER BY due_ms, seq LIMIT :limit) AS due;

-- == Tokens and marks

-- name: marks_drop
-- Remove marks that have been read; walks the primary key, locks those rows, which nobody else wants.
DELETE FROM penstock_token
WHERE token = ANY(ARRAY(SELECT convert_to(i.id, 'UTF8') FROM unnest(:ids::text[]) AS i (id)));

-- name: marks_find
-- Which of these transactions have committed: each wrote a mark, the id of its first event. Walks the primary key, locks
-- nothing.
SELECT id FROM penstock_token
WHERE token = ANY(ARRAY(SELECT convert_to(i.id, 'UTF8') FROM unnest(:ids::text[]) AS i (id)));

-- == Erasing

-- name: erase_scheduled
-- Remove some scheduled events of an owner and return their ids; walks ix_penstock_scheduled_owner, locks those rows and waits
-- for a move that has them: what it has moved is found in the log.
DELETE FROM penstock_scheduled WHERE ctid = ANY(ARRAY(
    SELECT ctid FROM penstock_scheduled WHERE owner = :owner LIMIT :limit)) AND owner = :owner
RETURNING id;

-- name: erase_staged
-- Remove some staged events of an owner and return their ids; walks ix_penstock_staged_owner, locks those rows and waits
-- for a move that has them: what it has moved is found in the log.
DELETE FROM penstock_staged WHERE ctid = ANY(ARRAY(
    SELECT ctid FROM penstock_staged WHERE owner = :owner LIMIT :limit)) AND owner = :owner
RETURNING id;
