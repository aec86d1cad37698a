-- The statements of this room for every engine, in the neutral SQL that log/sql/statements.py describes. Locks are for
-- engines with many writers: in SQLite a transaction that writes is the only one.

-- == On the caller's connection: values in their order, `?`

-- name: cancel
-- Take a scheduled event back in the caller's transaction; walks ix_penstock_scheduled_id, locks that row. A move that has locked
-- it first wins: this waits for its end and finds nothing.
DELETE FROM penstock_scheduled WHERE id = ? AND topic = ?;

-- name: cancel_key
-- Take the scheduled events of a key back in the caller's transaction; walks ix_penstock_scheduled_key, locks its rows in the
-- order of seq, so that two callers wait in line. A move that has locked one first wins: this waits and finds it gone.
DELETE FROM penstock_scheduled WHERE seq = ANY(ARRAY(
    SELECT seq FROM penstock_scheduled WHERE key_hash = ? AND key = ? AND topic = ? ORDER BY seq FOR UPDATE));

-- name: cancel_owner
-- Take the scheduled events of an owner back in the caller's transaction; walks ix_penstock_scheduled_owner, locks its rows in
-- the order of seq, so that two callers wait in line. A move that has locked one first wins: this waits and finds it gone.
DELETE FROM penstock_scheduled WHERE seq = ANY(ARRAY(
    SELECT seq FROM penstock_scheduled WHERE owner = ? AND topic = ? ORDER BY seq FOR UPDATE));

-- name: reschedule
-- Give a scheduled event another time in the caller's transaction; walks ix_penstock_scheduled_id, locks that row. A move that
-- has locked it first wins: this waits for its end and finds nothing.
UPDATE penstock_scheduled SET due_ms = ? WHERE id = ? AND topic = ?;

-- name: reschedule_key
-- Give the scheduled events of a key another time in the caller's transaction; walks ix_penstock_scheduled_key, locks its rows
-- in the order of seq, so that two callers wait in line. A move that has locked one first wins: this waits and finds it gone.
UPDATE penstock_scheduled SET due_ms = ? WHERE seq = ANY(ARRAY(
    SELECT seq FROM penstock_scheduled WHERE key_hash = ? AND key = ? AND topic = ? ORDER BY seq FOR UPDATE));

-- name: reschedule_owner
-- Give the scheduled events of an owner another time in the caller's transaction; walks ix_penstock_scheduled_owner, locks its
-- rows in the order of seq, so that two callers wait in line. A move that has locked one first wins: this waits and finds it
-- gone.
UPDATE penstock_scheduled SET due_ms = ? WHERE seq = ANY(ARRAY(
    SELECT seq FROM penstock_scheduled WHERE owner = ? AND topic = ? ORDER BY seq FOR UPDATE));

-- name: schedule
-- Stage one event for the future in the caller's transaction; writes ix_penstock_scheduled_due and ix_penstock_scheduled_id.
INSERT INTO penstock_scheduled (slot, key_hash, topic, id, key, type, value, headers, timestamp_ms, owner, due_ms)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: stage
-- Stage one event in the caller's transaction; no lock, no counter but the sequence.
INSERT INTO penstock_staged (slot, key_hash, topic, id, key, type, value, headers, timestamp_ms, owner)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: token_drop
-- Remove a token that was taken too long ago to count; walks the primary key, locks that row.
DELETE FROM penstock_token WHERE token = ? AND created_ms <= ?;

-- name: token_find
-- The event a token stands for; walks the primary key, locks nothing.
SELECT token, id, created_ms FROM penstock_token WHERE token = ?;

-- name: token_take
-- Take a token in the caller's transaction if it is free; waits for a transaction that has taken it and not ended.
INSERT INTO penstock_token (token, id, created_ms) VALUES (?, ?, ?) ON CONFLICT (token) DO NOTHING;

-- == The move

-- name: delete_scheduled
-- Remove scheduled rows by their exact ids; walks the primary key.
DELETE FROM penstock_scheduled WHERE seq = ANY(:seqs::bigint[]);

-- name: delete_staged
-- Remove staged rows by their exact ids; walks the primary key.
DELETE FROM penstock_staged WHERE seq = ANY(:seqs::bigint[]);

-- name: gauge_backlog
-- How many events are staged and how many wait for their time, each up to so many; reads the tables so far, locks nothing.
SELECT (SELECT count(*) FROM (SELECT 1 FROM penstock_staged LIMIT :most) AS s),
       (SELECT count(*) FROM (SELECT 1 FROM penstock_scheduled LIMIT :most) AS w);

-- name: insert_scheduled
-- Copy scheduled rows into the log at the offsets given to them; walks the primary keys.
INSERT INTO penstock_log (topic_id, partition, "offset", id, key, type, value, headers, timestamp_ms, owner)
SELECT w.topic_id, w.partition, w.place, s.id, s.key, s.type, s.value, s.headers, s.timestamp_ms, s.owner
FROM rows(:places, seq bigint, topic_id integer, partition integer, place bigint) AS w
JOIN penstock_scheduled s ON s.seq = w.seq;

-- name: insert_staged
-- Copy staged rows into the log at the offsets given to them; walks the primary keys.
INSERT INTO penstock_log (topic_id, partition, "offset", id, key, type, value, headers, timestamp_ms, owner)
SELECT w.topic_id, w.partition, w.place, s.id, s.key, s.type, s.value, s.headers, s.timestamp_ms, s.owner
FROM rows(:places, seq bigint, topic_id integer, partition integer, place bigint) AS w
JOIN penstock_staged s ON s.seq = w.seq;

-- name: pick_due
-- The due rows of these slots, in the order they became due; walks ix_penstock_scheduled_due, up to now: the clock is
-- read once, in a subquery, or the whole index would be read. Locks them, and passes by those that a caller is
-- cancelling, so that neither waits for the other.
SELECT seq, slot, topic, key_hash, timestamp_ms FROM penstock_scheduled
WHERE due_ms <= now_ms(:now_ms)
  AND slot = ANY(:slots::smallint[])
ORDER BY due_ms, seq LIMIT :limit
FOR UPDATE SKIP LOCKED;

-- == Tokens and marks

-- name: tokens_erase
-- Remove the tokens of some events; reads the table: an index for it would cost every publish with a token.
DELETE FROM penstock_token WHERE id = ANY(:ids::text[]);

-- name: tokens_trim
-- Remove the oldest tokens, taken before a moment, at most so many; walks ix_penstock_token_created, locks those rows and
-- passes by what a caller has locked.
DELETE FROM penstock_token WHERE token = ANY(ARRAY(
    SELECT token FROM penstock_token WHERE created_ms < :before_ms
    ORDER BY created_ms LIMIT :limit FOR UPDATE SKIP LOCKED));
