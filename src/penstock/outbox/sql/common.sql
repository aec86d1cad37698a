-- The statements of this room for every engine, in the neutral SQL that database/statements.py describes. Locks are for
-- engines with many writers: in SQLite a transaction that writes is the only one.

-- == On the caller's connection: values in their order, `?`

-- name: cancel
-- Cancel a scheduled event in the caller's transaction; walks ix_penstock_scheduled_id, locks that row. A move that has
-- locked it first wins: this waits for its end and finds nothing.
DELETE FROM penstock_scheduled WHERE id = ? AND topic = ?;

-- name: cancel_key
-- Cancel the scheduled events of a key in the caller's transaction; walks ix_penstock_scheduled_key, locks its rows in the
-- order of seq, so that two callers do not deadlock. A move that has locked one first wins: this waits and finds it gone.
DELETE FROM penstock_scheduled WHERE seq = ANY(ARRAY(
    SELECT seq FROM penstock_scheduled WHERE key_hash = ? AND key = ? AND topic = ? ORDER BY seq FOR UPDATE));

-- name: cancel_owner
-- Cancel the scheduled events of an owner in the caller's transaction; walks ix_penstock_scheduled_owner, locks its rows in
-- the order of seq, so that two callers do not deadlock. A move that has locked one first wins: this waits and finds it
-- gone.
DELETE FROM penstock_scheduled WHERE seq = ANY(ARRAY(
    SELECT seq FROM penstock_scheduled WHERE owner = ? AND topic = ? ORDER BY seq FOR UPDATE));

-- name: reschedule
-- Reschedule an event in the caller's transaction; walks ix_penstock_scheduled_id, locks that row. A move that has locked
-- it first wins: this waits for its end and finds nothing.
UPDATE penstock_scheduled SET due_ms = ? WHERE id = ? AND topic = ?;

-- name: reschedule_key
-- Reschedule the events of a key in the caller's transaction; walks ix_penstock_scheduled_key, locks its rows in the order
-- of seq, so that two callers do not deadlock. A move that has locked one first wins: this waits and finds it gone.
UPDATE penstock_scheduled SET due_ms = ? WHERE seq = ANY(ARRAY(
    SELECT seq FROM penstock_scheduled WHERE key_hash = ? AND key = ? AND topic = ? ORDER BY seq FOR UPDATE));

-- name: reschedule_owner
-- Reschedule the events of an owner in the caller's transaction; walks ix_penstock_scheduled_owner, locks its rows in the
-- order of seq, so that two callers do not deadlock. A move that has locked one first wins: this waits and finds it gone.
UPDATE penstock_scheduled SET due_ms = ? WHERE seq = ANY(ARRAY(
    SELECT seq FROM penstock_scheduled WHERE owner = ? AND topic = ? ORDER BY seq FOR UPDATE));

-- name: schedule
-- Stage one event for the future in the caller's transaction; writes ix_penstock_scheduled_due and ix_penstock_scheduled_id.
INSERT INTO penstock_scheduled (slot, key_hash, topic, id, key, type, value, headers, timestamp_ms, owner, due_ms)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: stage
-- Stage one event in the caller's transaction; no lock, and no counter except the sequence.
INSERT INTO penstock_staged (slot, key_hash, topic, id, key, type, value, headers, timestamp_ms, owner)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: token_drop
-- Remove a token that was taken too long ago to count; walks the primary key, locks that row.
DELETE FROM penstock_token WHERE token = ? AND created_ms <= ?;

-- name: token_find
-- The event of a token, and a hash of its content; walks the primary key, locks nothing.
SELECT token, id, created_ms, content FROM penstock_token WHERE token = ?;

-- name: token_take
-- Take a token in the caller's transaction if it is free; waits for an open transaction that has taken it.
INSERT INTO penstock_token (token, id, created_ms, content) VALUES (?, ?, ?, ?) ON CONFLICT (token) DO NOTHING;

-- == The move

-- name: delete_scheduled
-- Remove scheduled rows by their exact ids; walks the primary key.
DELETE FROM penstock_scheduled WHERE seq = ANY(:seqs::bigint[]) AND slot = ANY(:slots::smallint[]);

-- name: delete_staged
-- Remove staged rows by their exact ids; walks the primary key.
DELETE FROM penstock_staged WHERE slot = ANY(:slots::smallint[]) AND seq = ANY(:seqs::bigint[]);

-- name: gauge_backlog
-- The number of staged and of scheduled events, each up to a limit; the time of the oldest staged one, and the due time of
-- the next scheduled one. Reads the tables up to the limit, and one end of ix_penstock_scheduled_due; locks nothing.
SELECT s.events, w.events, s.since_ms, (SELECT min(due_ms) FROM penstock_scheduled)
FROM (SELECT count(*) AS events, min(timestamp_ms) AS since_ms
      FROM (SELECT timestamp_ms FROM penstock_staged LIMIT :most) AS r) AS s
CROSS JOIN (SELECT count(*) AS events FROM (SELECT 1 FROM penstock_scheduled LIMIT :most) AS r) AS w;

-- name: pick_due
-- The due rows of these slots, in the order they became due; walks ix_penstock_scheduled_due, up to now: the clock is
-- read once, in a subquery, or the whole index would be read. Locks them, and skips those that a caller is cancelling, so
-- that neither waits for the other.
SELECT seq, slot, topic, key_hash, timestamp_ms FROM penstock_scheduled
WHERE due_ms <= now_ms(:now_ms)
  AND slot = ANY(:slots::smallint[])
ORDER BY due_ms, seq LIMIT :limit
FOR UPDATE SKIP LOCKED;

-- name: contents_staged
-- The contents of staged rows to move; walks the primary key, locks them, so that erasing one waits for the move.
SELECT seq, id, key, type, value, headers, timestamp_ms, owner FROM penstock_staged
WHERE slot = ANY(:slots::smallint[]) AND seq = ANY(:seqs::bigint[])
FOR UPDATE;

-- name: traces_staged
-- The headers of staged rows that have any, while tracing is on; walks the primary key, locks nothing.
SELECT id, topic, headers FROM penstock_staged
WHERE slot = ANY(:slots::smallint[]) AND seq = ANY(:seqs::bigint[]) AND headers IS NOT NULL;

-- name: keys_staged
-- The keys and ids of staged rows; walks the primary key, locks nothing.
SELECT seq, key, id FROM penstock_staged WHERE slot = ANY(:slots::smallint[]) AND seq = ANY(:seqs::bigint[]);

-- name: contents_scheduled
-- The contents of scheduled rows to move; walks the primary key, and locks rows that the pick has already locked.
SELECT seq, id, key, type, value, headers, timestamp_ms, owner FROM penstock_scheduled
WHERE slot = ANY(:slots::smallint[]) AND seq = ANY(:seqs::bigint[])
FOR UPDATE;

-- name: settle_staged
-- Remove the staged rows of a batch that is in the log, after an interrupted move; walks the primary key of the slot,
-- locks those rows.
DELETE FROM penstock_staged WHERE slot = :slot AND topic = :topic AND id = ANY(:ids::text[]);

-- name: settle_scheduled
-- Remove the scheduled rows of a batch that is in the log, after an interrupted move; walks ix_penstock_scheduled_id,
-- locks those rows and waits for a caller that is cancelling one.
DELETE FROM penstock_scheduled WHERE id = ANY(:ids::text[]) AND slot = :slot AND topic = :topic;

-- name: traces_scheduled
-- The headers of scheduled rows that have any, while tracing is on; walks the primary key, locks nothing.
SELECT id, topic, headers FROM penstock_scheduled
WHERE slot = ANY(:slots::smallint[]) AND seq = ANY(:seqs::bigint[]) AND headers IS NOT NULL;

-- name: keys_scheduled
-- The keys and ids of scheduled rows; walks the primary key, locks nothing.
SELECT seq, key, id FROM penstock_scheduled WHERE slot = ANY(:slots::smallint[]) AND seq = ANY(:seqs::bigint[]);

-- name: pick_staged
-- The oldest staged rows of these slots; walks the primary key. One order for all slots, so no slot can starve another.
SELECT seq, slot, topic, key_hash, timestamp_ms FROM penstock_staged
WHERE slot = ANY(:slots::integer[])
ORDER BY seq LIMIT :limit;

-- == Tokens and marks

-- name: tokens_erase
-- Remove the tokens of some events; reads the table: an index for it would cost every publish with a token.
DELETE FROM penstock_token WHERE id = ANY(:ids::text[]);

-- name: tokens_trim
-- Remove the oldest tokens, taken before a moment, up to a limit; walks ix_penstock_token_created, locks those rows and
-- skips rows that a caller has locked.
DELETE FROM penstock_token WHERE token = ANY(ARRAY(
    SELECT token FROM penstock_token WHERE created_ms < :before_ms
    ORDER BY created_ms LIMIT :limit FOR UPDATE SKIP LOCKED));

-- == For operations and listings

-- name: topic_unschedule
-- Remove the scheduled events of a topic; reads the table, and waits for callers that are cancelling some of them. Slots and
-- heads are already locked, so no move is in progress.
DELETE FROM penstock_scheduled WHERE topic = :topic;

-- name: topic_unstage
-- Remove the staged events of a topic; reads the table. Slots and heads are already locked, so no move is in progress.
DELETE FROM penstock_staged WHERE topic = :topic;

-- name: scheduled_cancel
-- Cancel some scheduled events, the next due first; walks ix_penstock_scheduled_due, locks the rows and skips those that a
-- sequencer is moving or a caller is cancelling, so that neither waits for the other.
DELETE FROM penstock_scheduled WHERE seq = ANY(ARRAY(
    SELECT seq FROM penstock_scheduled
    WHERE (:id::text IS NULL OR id = :id::text)
      AND (:topic::text IS NULL OR topic = :topic::text)
      AND (:key_hash::integer IS NULL OR key_hash = :key_hash::integer)
      AND (:key::bytea IS NULL OR key = :key::bytea)
      AND (:owner::text IS NULL OR owner = :owner::text)
      AND (:before_ms::bigint IS NULL OR due_ms < :before_ms::bigint)
    ORDER BY due_ms, seq LIMIT :limit FOR UPDATE SKIP LOCKED));

-- name: scheduled_hasten
-- Make a scheduled event due now; walks ix_penstock_scheduled_id, locks that row. A move that has locked it first wins:
-- this waits for its end and finds nothing.
UPDATE penstock_scheduled SET due_ms = now_ms(:now_ms) WHERE id = :id;

-- name: scheduled_next
-- The due time of the next scheduled event after a moment; walks ix_penstock_scheduled_due, locks nothing.
SELECT min(due_ms) FROM penstock_scheduled WHERE due_ms > :now_ms::bigint;

-- name: scheduled_all
-- All scheduled events, by due time; walks ix_penstock_scheduled_due, locks nothing.
SELECT due_ms, topic, id, key, type, value, headers, timestamp_ms FROM penstock_scheduled ORDER BY due_ms, seq;

-- name: staged_all
-- All staged events, in the order of staging; walks the whole table, locks nothing.
SELECT topic, id, key, type, value, headers, timestamp_ms FROM penstock_staged ORDER BY seq;

-- == Erasing

-- name: erase_scheduled
-- Remove some scheduled events of an owner and return their ids; walks ix_penstock_scheduled_owner, locks those rows and waits
-- for a move that has them: rows that it has moved are found in the log.
-- without returning: find_then_change(erase_scheduled_find, erase_scheduled_write)
DELETE FROM penstock_scheduled WHERE seq = ANY(ARRAY(
    SELECT seq FROM penstock_scheduled WHERE owner = :owner LIMIT :limit FOR UPDATE))
RETURNING seq, id;

-- name: erase_scheduled_find
-- The second form of erase_scheduled, first step; walks ix_penstock_scheduled_owner, locks those rows and waits for a move
-- that has them.
SELECT seq, id FROM penstock_scheduled WHERE owner = :owner LIMIT :limit FOR UPDATE;

-- name: erase_scheduled_write
-- The second form of erase_scheduled, second step; walks the primary key, the rows are locked already.
DELETE FROM penstock_scheduled WHERE seq = ANY(:found::bigint[]);

-- name: erase_staged
-- Remove some staged events of an owner and return their ids; walks ix_penstock_staged_owner, locks those rows and waits
-- for a move that has them: rows that it has moved are found in the log.
-- without returning: find_then_change(erase_staged_find, erase_staged_write)
DELETE FROM penstock_staged WHERE seq = ANY(ARRAY(
    SELECT seq FROM penstock_staged WHERE owner = :owner LIMIT :limit FOR UPDATE))
RETURNING seq, id;

-- name: erase_staged_find
-- The second form of erase_staged, first step; walks ix_penstock_staged_owner, locks those rows and waits for a move that
-- has them.
SELECT seq, id FROM penstock_staged WHERE owner = :owner LIMIT :limit FOR UPDATE;

-- name: erase_staged_write
-- The second form of erase_staged, second step; walks the primary key, the rows are locked already.
DELETE FROM penstock_staged WHERE seq = ANY(:found::bigint[]);

-- == Schedules of periodic events

-- name: periodic_read
-- Some schedules, and the database's time; walks the primary key, locks nothing.
SELECT name, definition, version, retired, since_ms, last_ms, next_ms, paused, now_ms(:now_ms) FROM penstock_periodic
WHERE name = ANY(:names::text[]) ORDER BY name;

-- name: periodic_lock
-- One schedule, and the database's time; walks the primary key, locks that row.
SELECT name, definition, version, retired, since_ms, last_ms, next_ms, paused, now_ms(:now_ms) FROM penstock_periodic
WHERE name = :name FOR UPDATE;

-- name: periodic_create
-- Create a schedule unless it exists; locks the new name.
-- without on_conflict: instead(periodic_create_missing)
INSERT INTO penstock_periodic (name, definition, since_ms, next_ms) VALUES (:name, :definition, :since_ms, :next_ms)
ON CONFLICT (name) DO NOTHING;

-- name: periodic_create_missing
-- The second form of periodic_create; walks the primary key.
INSERT INTO penstock_periodic (name, definition, since_ms, next_ms)
SELECT :name::text, :definition::text, :since_ms::bigint, :next_ms::bigint
WHERE NOT EXISTS (SELECT 1 FROM penstock_periodic WHERE name = :name::text);

-- name: periodic_define
-- Change the definition of a schedule; walks the primary key, the row is already locked.
UPDATE penstock_periodic SET definition = :definition, version = version + 1, retired = :retired, since_ms = :since_ms,
    next_ms = :next_ms, failures = 0, error = NULL, failed_ms = NULL
WHERE name = :name;

-- name: periodic_tick
-- Take a tick, if it is due by the database's clock and neither taken nor the schedule changed since it was read; walks the
-- primary key, locks that row: of two takers, the second waits and finds another next_ms.
UPDATE penstock_periodic SET last_ms = :last_ms, next_ms = :next_ms, failures = 0, error = NULL, failed_ms = NULL
WHERE name = :name AND version = :version AND next_ms = :due_ms AND NOT paused AND :tick_ms::bigint <= now_ms(:now_ms);

-- name: periodic_fail
-- Record that the event of a tick could not be made, unless the tick has been taken since; walks the primary key, locks
-- that row.
UPDATE penstock_periodic SET failures = failures + 1, error = :error, failed_ms = now_ms(:now_ms)
WHERE name = :name AND version = :version AND next_ms = :due_ms;

-- name: periodic_pause
-- Pause a schedule; walks the primary key, locks that row and waits for a tick in progress.
UPDATE penstock_periodic SET paused = true WHERE name = :name AND NOT paused;

-- name: periodic_resume
-- Resume a schedule with a later tick; walks the primary key, the row is already locked.
UPDATE penstock_periodic SET paused = false, next_ms = :next_ms WHERE name = :name AND paused;

-- name: periodic_hasten
-- Make a schedule tick now; walks the primary key, the row is already locked.
UPDATE penstock_periodic SET next_ms = :next_ms WHERE name = :name AND next_ms > :next_ms;

-- name: periodic_remove
-- Remove a schedule; walks the primary key, the row is already locked.
DELETE FROM penstock_periodic WHERE name = :name;
