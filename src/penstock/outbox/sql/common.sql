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
-- The event a token stands for, and a hash of what was published with it; walks the primary key, locks nothing.
SELECT token, id, created_ms, content FROM penstock_token WHERE token = ?;

-- name: token_take
-- Take a token in the caller's transaction if it is free; waits for a transaction that has taken it and not ended.
INSERT INTO penstock_token (token, id, created_ms, content) VALUES (?, ?, ?, ?) ON CONFLICT (token) DO NOTHING;

-- == The move

-- name: delete_scheduled
-- Remove scheduled rows by their exact ids; walks the primary key.
DELETE FROM penstock_scheduled WHERE seq = ANY(:seqs::bigint[]) AND slot = ANY(:slots::smallint[]);

-- name: delete_staged
-- Remove staged rows by their exact ids; walks the primary key.
DELETE FROM penstock_staged WHERE slot = ANY(:slots::smallint[]) AND seq = ANY(:seqs::bigint[]);

-- name: gauge_backlog
-- How many events are staged and how many wait for their time, each up to so many; since when the oldest of the former
-- waits, and when the first of the latter is due. Reads the tables so far, and one end of ix_penstock_scheduled_due; locks
-- nothing.
SELECT s.events, w.events, s.since_ms, (SELECT min(due_ms) FROM penstock_scheduled)
FROM (SELECT count(*) AS events, min(timestamp_ms) AS since_ms
      FROM (SELECT timestamp_ms FROM penstock_staged LIMIT :most) AS r) AS s
CROSS JOIN (SELECT count(*) AS events FROM (SELECT 1 FROM penstock_scheduled LIMIT :most) AS r) AS w;

-- name: pick_due
-- The due rows of these slots, in the order they became due; walks ix_penstock_scheduled_due, up to now: the clock is
-- read once, in a subquery, or the whole index would be read. Locks them, and passes by those that a caller is
-- cancelling, so that neither waits for the other.
SELECT seq, slot, topic, key_hash, timestamp_ms FROM penstock_scheduled
WHERE due_ms <= now_ms(:now_ms)
  AND slot = ANY(:slots::smallint[])
ORDER BY due_ms, seq LIMIT :limit
FOR UPDATE SKIP LOCKED;

-- name: contents_staged
-- What staged rows hold that are to be moved; walks the primary key, locks them, so that who erases one waits for the move.
SELECT seq, id, key, type, value, headers, timestamp_ms, owner FROM penstock_staged
WHERE slot = ANY(:slots::smallint[]) AND seq = ANY(:seqs::bigint[])
FOR UPDATE;

-- name: traces_staged
-- The headers of staged rows that have some, while spans are recorded; walks the primary key, locks nothing.
SELECT id, topic, headers FROM penstock_staged
WHERE slot = ANY(:slots::smallint[]) AND seq = ANY(:seqs::bigint[]) AND headers IS NOT NULL;

-- name: keys_staged
-- The keys and ids of staged rows; walks the primary key, locks nothing.
SELECT seq, key, id FROM penstock_staged WHERE slot = ANY(:slots::smallint[]) AND seq = ANY(:seqs::bigint[]);

-- name: contents_scheduled
-- What scheduled rows hold that are to be moved; walks the primary key, and locks rows that the pick has locked already.
SELECT seq, id, key, type, value, headers, timestamp_ms, owner FROM penstock_scheduled
WHERE slot = ANY(:slots::smallint[]) AND seq = ANY(:seqs::bigint[])
FOR UPDATE;

-- name: settle_staged
-- Remove the staged rows of a batch that is in the log, after a move that was cut short; walks the primary key of the slot,
-- locks those rows.
DELETE FROM penstock_staged WHERE slot = :slot AND topic = :topic AND id = ANY(:ids::text[]);

-- name: settle_scheduled
-- Remove the scheduled rows of a batch that is in the log, after a move that was cut short; walks ix_penstock_scheduled_id,
-- locks those rows and waits for a caller who is cancelling one.
DELETE FROM penstock_scheduled WHERE id = ANY(:ids::text[]) AND slot = :slot AND topic = :topic;

-- name: traces_scheduled
-- The headers of scheduled rows that have some, while spans are recorded; walks the primary key, locks nothing.
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
-- Remove the oldest tokens, taken before a moment, at most so many; walks ix_penstock_token_created, locks those rows and
-- passes by what a caller has locked.
DELETE FROM penstock_token WHERE token = ANY(ARRAY(
    SELECT token FROM penstock_token WHERE created_ms < :before_ms
    ORDER BY created_ms LIMIT :limit FOR UPDATE SKIP LOCKED));

-- == For operations and listings

-- name: topic_unlogged
-- How much is staged and scheduled for a topic; reads the tables, locks nothing.
SELECT (SELECT count(*) FROM penstock_staged WHERE topic = :topic),
       (SELECT count(*) FROM penstock_scheduled WHERE topic = :topic);

-- name: ready_by_slot
-- What is staged, or scheduled and due, of a topic or of all: how many events in each slot, and since when; reads the staged
-- events, and those that are due by ix_penstock_scheduled_due, locks nothing.
SELECT slot, sum(events)::bigint, min(since_ms) FROM (
    SELECT slot, count(*) AS events, min(timestamp_ms) AS since_ms FROM penstock_staged
    WHERE :topic::text IS NULL OR topic = :topic::text GROUP BY slot
    UNION ALL
    SELECT slot, count(*), min(due_ms) FROM penstock_scheduled
    WHERE due_ms <= :now_ms::bigint AND (:topic::text IS NULL OR topic = :topic::text) GROUP BY slot) AS ready
GROUP BY slot ORDER BY slot;

-- name: unlogged_count
-- How much is staged and scheduled; reads the tables, locks nothing.
SELECT (SELECT count(*) FROM penstock_staged), (SELECT count(*) FROM penstock_scheduled);

-- name: owner_counted
-- How many staged and scheduled events have an owner tag; walks the indexes on owner, locks nothing.
SELECT (SELECT count(*) FROM penstock_staged WHERE owner = :owner),
       (SELECT count(*) FROM penstock_scheduled WHERE owner = :owner);

-- name: topic_unschedule
-- Take back what is scheduled for a topic; reads the table, and waits for callers who are cancelling some of it. Slots and
-- heads are locked already, so no move is under way.
DELETE FROM penstock_scheduled WHERE topic = :topic;

-- name: topic_unstage
-- Take back what is staged for a topic; reads the table. Slots and heads are locked already, so no move is under way.
DELETE FROM penstock_staged WHERE topic = :topic;

-- name: scheduled_cancel
-- Take some scheduled events back, the next due first; walks ix_penstock_scheduled_due, locks the rows and passes by those
-- that a sequencer is moving or a caller is cancelling, so that neither waits for the other.
DELETE FROM penstock_scheduled WHERE seq = ANY(ARRAY(
    SELECT seq FROM penstock_scheduled
    WHERE (:id::text IS NULL OR id = :id::text)
      AND (:topic::text IS NULL OR topic = :topic::text)
      AND (:key_hash::integer IS NULL OR key_hash = :key_hash::integer)
      AND (:key::bytea IS NULL OR key = :key::bytea)
      AND (:owner::text IS NULL OR owner = :owner::text)
      AND (:before_ms::bigint IS NULL OR due_ms < :before_ms::bigint)
    ORDER BY due_ms, seq LIMIT :limit FOR UPDATE SKIP LOCKED));

-- name: scheduled_count
-- How many scheduled events match; reads the table or one of its indexes, locks nothing.
SELECT count(*) FROM penstock_scheduled
WHERE (:id::text IS NULL OR id = :id::text)
  AND (:topic::text IS NULL OR topic = :topic::text)
  AND (:key_hash::integer IS NULL OR key_hash = :key_hash::integer)
  AND (:key::bytea IS NULL OR key = :key::bytea)
  AND (:owner::text IS NULL OR owner = :owner::text)
  AND (:before_ms::bigint IS NULL OR due_ms < :before_ms::bigint);

-- name: scheduled_hasten
-- Make a scheduled event due now; walks ix_penstock_scheduled_id, locks that row. A move that has locked it first wins:
-- this waits for its end and finds nothing.
UPDATE penstock_scheduled SET due_ms = now_ms(:now_ms) WHERE id = :id;

-- name: scheduled_list
-- A page of scheduled events, the next due first, after a place in that order; walks ix_penstock_scheduled_due, locks nothing.
SELECT due_ms, seq, topic, key, owner, type, id FROM penstock_scheduled
WHERE (due_ms, seq) > (:after_due::bigint, :after_seq::bigint)
  AND (:id::text IS NULL OR id = :id::text)
  AND (:topic::text IS NULL OR topic = :topic::text)
  AND (:key_hash::integer IS NULL OR key_hash = :key_hash::integer)
  AND (:key::bytea IS NULL OR key = :key::bytea)
  AND (:owner::text IS NULL OR owner = :owner::text)
  AND (:before_ms::bigint IS NULL OR due_ms < :before_ms::bigint)
ORDER BY due_ms, seq
LIMIT :limit;

-- name: scheduled_show
-- A scheduled event with all it holds; walks ix_penstock_scheduled_id, locks nothing.
SELECT due_ms, seq, topic, key, owner, type, id, slot, value, headers, timestamp_ms FROM penstock_scheduled
WHERE id = :id
ORDER BY seq LIMIT 1;

-- name: scheduled_by_id
-- An event for the future by its id; walks ix_penstock_scheduled_id, locks nothing.
SELECT topic, id, key, type, timestamp_ms, slot, due_ms FROM penstock_scheduled
WHERE id = :id AND (:topic::text IS NULL OR topic = :topic::text) ORDER BY seq LIMIT 1;

-- name: scheduled_by_key
-- The next event of a key for the future; walks ix_penstock_scheduled_key, locks nothing.
SELECT topic, id, key, type, timestamp_ms, slot, due_ms FROM penstock_scheduled
WHERE key_hash = :key_hash AND key IS NOT NULL AND key = :key AND (:topic::text IS NULL OR topic = :topic::text)
ORDER BY due_ms, seq LIMIT 1;

-- name: staged_by_id
-- A staged event by its id; reads the table up to so many rows, since it has no index on ids, locks nothing.
SELECT topic, id, key, type, timestamp_ms, slot, NULL::bigint FROM (
    SELECT topic, id, key, type, timestamp_ms, slot FROM penstock_staged LIMIT :walk) AS s
WHERE id = :id AND (:topic::text IS NULL OR topic = :topic::text) LIMIT 1;

-- name: staged_show
-- A staged event with all it holds; reads the table up to so many rows, since it has no index on ids, locks nothing.
SELECT owner, type, id, value, headers, timestamp_ms FROM (
    SELECT owner, type, id, value, headers, timestamp_ms FROM penstock_staged LIMIT :walk) AS s
WHERE id = :id LIMIT 1;

-- name: staged_count
-- How many events are staged, up to so many; reads the table so far, locks nothing.
SELECT count(*) FROM (SELECT 1 FROM penstock_staged LIMIT :walk) AS s;

-- name: unlogged_of_key
-- How many events of a key are staged, among so many of its slot, and scheduled; reads the staged events of the slot and walks
-- ix_penstock_scheduled_key, locks nothing.
SELECT (SELECT count(*) FROM (SELECT topic, key_hash, key FROM penstock_staged WHERE slot = :slot LIMIT :walk) AS s
        WHERE s.key_hash = :key_hash AND s.key = :key AND (:topic::text IS NULL OR s.topic = :topic::text)),
       (SELECT count(*) FROM penstock_scheduled
        WHERE key_hash = :key_hash AND key IS NOT NULL AND key = :key AND (:topic::text IS NULL OR topic = :topic::text));

-- name: scheduled_next
-- When the next scheduled event after a moment is due; walks ix_penstock_scheduled_due, locks nothing.
SELECT min(due_ms) FROM penstock_scheduled WHERE due_ms > :now_ms::bigint;

-- name: scheduled_all
-- All that is scheduled, by when it is due; walks ix_penstock_scheduled_due, locks nothing.
SELECT due_ms, topic, id, key, type, value, headers, timestamp_ms FROM penstock_scheduled ORDER BY due_ms, seq;

-- name: staged_all
-- All that is staged, in the order of staging; walks the whole table, locks nothing.
SELECT topic, id, key, type, value, headers, timestamp_ms FROM penstock_staged ORDER BY seq;

-- == Erasing

-- name: erase_scheduled
-- Remove some scheduled events of an owner and return their ids; walks ix_penstock_scheduled_owner, locks those rows and waits
-- for a move that has them: what it has moved is found in the log.
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
-- for a move that has them: what it has moved is found in the log.
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
-- Make a schedule unless it is there; locks the new name.
-- without on_conflict: instead(periodic_create_missing)
INSERT INTO penstock_periodic (name, definition, since_ms, next_ms) VALUES (:name, :definition, :since_ms, :next_ms)
ON CONFLICT (name) DO NOTHING;

-- name: periodic_create_missing
-- The second form of periodic_create; walks the primary key.
INSERT INTO penstock_periodic (name, definition, since_ms, next_ms)
SELECT :name::text, :definition::text, :since_ms::bigint, :next_ms::bigint
WHERE NOT EXISTS (SELECT 1 FROM penstock_periodic WHERE name = :name::text);

-- name: periodic_define
-- Give a schedule another definition; walks the primary key, the row is locked already.
UPDATE penstock_periodic SET definition = :definition, version = version + 1, retired = :retired, since_ms = :since_ms,
    next_ms = :next_ms, failures = 0, error = NULL, failed_ms = NULL
WHERE name = :name;

-- name: periodic_tick
-- Take a tick, if it is due by the database's clock and nobody has taken it or changed the schedule since; walks the primary
-- key, locks that row: of two that take it, the second waits and finds another next_ms.
UPDATE penstock_periodic SET last_ms = :last_ms, next_ms = :next_ms, failures = 0, error = NULL, failed_ms = NULL
WHERE name = :name AND version = :version AND next_ms = :due_ms AND NOT paused AND :tick_ms::bigint <= now_ms(:now_ms);

-- name: periodic_fail
-- Note that the event of a tick could not be made, if nobody has taken the tick since; walks the primary key, locks that row.
UPDATE penstock_periodic SET failures = failures + 1, error = :error, failed_ms = now_ms(:now_ms)
WHERE name = :name AND version = :version AND next_ms = :due_ms;

-- name: periodic_list
-- A page of schedules by name, after one of them; walks the primary key, locks nothing.
SELECT name, definition, version, since_ms, last_ms, next_ms, paused, failures, error, failed_ms, now_ms(:now_ms)
FROM penstock_periodic WHERE name > :after AND (:name::text IS NULL OR name = :name::text) ORDER BY name LIMIT :limit;

-- name: periodic_pause
-- Let a schedule tick no more; walks the primary key, locks that row and waits for a tick under way.
UPDATE penstock_periodic SET paused = true WHERE name = :name AND NOT paused;

-- name: periodic_resume
-- Let a schedule go on with a later tick; walks the primary key, the row is locked already.
UPDATE penstock_periodic SET paused = false, next_ms = :next_ms WHERE name = :name AND paused;

-- name: periodic_hasten
-- Let a schedule tick now; walks the primary key, the row is locked already.
UPDATE penstock_periodic SET next_ms = :next_ms WHERE name = :name AND next_ms > :next_ms;

-- name: periodic_remove
-- Forget a schedule; walks the primary key, the row is locked already.
DELETE FROM penstock_periodic WHERE name = :name;
