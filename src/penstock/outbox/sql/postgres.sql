-- PostgreSQL's own forms: locks in a fixed order, LATERAL, and several steps in one statement.

-- == On the caller's connection: values in their order, `?`

-- name: durability
-- Whether commits of this session survive a crash of the server; reads no table.
SELECT current_setting('synchronous_commit');

-- name: schedule_many
-- Stage many events for the future in the caller's transaction and the caller's order; locks nothing.
INSERT INTO penstock_scheduled (slot, key_hash, topic, id, key, type, value, headers, timestamp_ms, owner, due_ms)
SELECT slot, key_hash, topic, id, key, type, value, headers, timestamp_ms, owner, due_ms
FROM unnest(?::smallint[], ?::integer[], ?::text[], ?::text[], ?::bytea[], ?::text[], ?::bytea[], ?::bytea[],
            ?::bigint[], ?::text[], ?::bigint[])
     WITH ORDINALITY AS e (slot, key_hash, topic, id, key, type, value, headers, timestamp_ms, owner, due_ms, place)
ORDER BY place;

-- name: stage_many
-- Stage many events in the caller's transaction and the caller's order: nextval runs in that order. Locks nothing.
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
-- The events of tokens, with hashes of their content; walks the primary key, locks nothing.
SELECT token, id, created_ms, content FROM penstock_token WHERE token = ANY(?::bytea[]);

-- name: token_take_many
-- Take the free ones of some tokens in the caller's transaction, in the given order, which must be sorted, since this
-- waits for open transactions that have taken one of them.
INSERT INTO penstock_token (token, id, created_ms, content)
SELECT token, id, created_ms, content
FROM unnest(?::bytea[], ?::text[], ?::bigint[], ?::bytea[]) WITH ORDINALITY AS t (token, id, created_ms, content, place)
ORDER BY place
ON CONFLICT (token) DO NOTHING;

-- == The move

-- name: pick_staged
-- The oldest staged rows of each of these slots; walks the primary key from the start of each slot, locks nothing.
SELECT p.seq, p.slot, p.topic, p.key_hash, p.timestamp_ms
FROM unnest(:slots::smallint[]) AS o (slot)
CROSS JOIN LATERAL (
    SELECT seq, slot, topic, key_hash, timestamp_ms FROM penstock_staged s
    WHERE s.slot = o.slot
    ORDER BY s.seq LIMIT :per_slot) AS p
LIMIT :limit;

-- name: probe
-- Which of these slots have rows to move; one probe of the primary key per slot, and the oldest due rows by
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
-- Remove marks that have been read; walks the primary key, locks those rows, which no other transaction uses.
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
-- for a move that has them: rows that it has moved are found in the log.
DELETE FROM penstock_scheduled WHERE ctid = ANY(ARRAY(
    SELECT ctid FROM penstock_scheduled WHERE owner = :owner LIMIT :limit)) AND owner = :owner
RETURNING seq, id;

-- name: erase_staged
-- Remove some staged events of an owner and return their ids; walks ix_penstock_staged_owner, locks those rows and waits
-- for a move that has them: rows that it has moved are found in the log.
DELETE FROM penstock_staged WHERE ctid = ANY(ARRAY(
    SELECT ctid FROM penstock_staged WHERE owner = :owner LIMIT :limit)) AND owner = :owner
RETURNING seq, id;
