-- The statements of this room for every engine, in the neutral SQL that database/statements.py describes. Locks are for
-- engines with many writers: in SQLite a transaction that writes is the only one.

-- == Cursors: the position of a group in each partition, and its owner

-- name: cursor_judge
-- Write the consequences of an owner's death for the records it had begun; walks the primary key, the row is locked
-- already.
UPDATE penstock_cursor SET trial = :trial
WHERE group_id = :group_id AND topic_id = :topic_id AND partition = :partition;

-- name: cursors_create
-- Make a group's cursors on a topic, in every partition, when the group is new there. Walks the primary key.
-- without on_conflict: instead(cursors_create_missing)
INSERT INTO penstock_cursor (group_id, topic_id, partition, "offset")
SELECT :group_id, :topic_id, c.partition, c.place
FROM rows(:cursors, partition integer, place bigint) AS c WHERE true
ON CONFLICT DO NOTHING;

-- name: cursors_create_missing
-- The second form of cursors_create; walks the primary key.
INSERT INTO penstock_cursor (group_id, topic_id, partition, "offset")
SELECT :group_id, :topic_id, c.partition, c.place
FROM rows(:cursors, partition integer, place bigint) AS c WHERE NOT EXISTS (
    SELECT 1 FROM penstock_cursor k
    WHERE k.group_id = :group_id AND k.topic_id = :topic_id AND k.partition = c.partition);

-- name: cursors_grow
-- Create the cursors that groups of handlers lack on a topic, in its present partitions; walks the groups, and the primary
-- key of the cursors for each. The topic is locked already.
INSERT INTO penstock_cursor (group_id, topic_id, partition, "offset")
SELECT g.id, :topic_id, n.partition, n.place
FROM rows(:cursors, partition integer, place bigint) AS n
CROSS JOIN penstock_group g
WHERE g.kind = 'handler'
  AND EXISTS (SELECT 1 FROM penstock_cursor k WHERE k.group_id = g.id AND k.topic_id = :topic_id)
  AND NOT EXISTS (
    SELECT 1 FROM penstock_cursor k
    WHERE k.group_id = g.id AND k.topic_id = :topic_id AND k.partition = n.partition);

-- name: cursors_hand_out
-- Write how far records of some partitions are handed out, and which suspects are about to begin, before they do. Each
-- cursor only as its owner in this epoch and version. Every engine that can do it in one statement has its own, which walks
-- the primary key and locks in order.
-- without returning, update_from: for_each(handed, cursors_hand_out_one)

-- name: cursors_hand_out_one
-- The second form of cursors_hand_out, for one partition; walks the primary key, locks that row.
UPDATE penstock_cursor SET trial = :trial, handed_to = :handed_to, kept_back = :kept_back
WHERE group_id = :group_id AND topic_id = :topic_id AND partition = :partition
  AND owner = :owner AND epoch = :epoch AND version = :version;

-- name: cursors_hold
-- Hold cursors, so that no owner settles or takes them meanwhile; walks the primary key, locks the rows in order, waiting
-- for the settlings under way.
SELECT partition, "offset", passed FROM penstock_cursor
WHERE group_id = :group_id AND topic_id = :topic_id AND partition = ANY(:partitions::integer[])
ORDER BY partition FOR UPDATE;

-- name: cursors_measure
-- Nothing to do where plans do not depend on how many cursors there are. Locks and walks nothing.
SELECT 1;

-- name: cursors_owned
-- The cursors a member owns, with their epochs and wanted owners, whether the group is paused, and how often others have
-- changed their lanes; walks the primary keys, locks nothing.
SELECT c.partition, c.epoch, c.owner_wanted, g.paused_ms IS NOT NULL, c.lanes_version
FROM penstock_cursor c JOIN penstock_group g ON g.id = c.group_id
WHERE c.group_id = :group_id AND c.topic_id = :topic_id AND c.owner = :owner;

-- name: cursors_places
-- The positions of cursors, and the offsets passed above them; walks the primary key, locks nothing.
SELECT partition, "offset", passed FROM penstock_cursor
WHERE group_id = :group_id AND topic_id = :topic_id AND partition = ANY(:partitions::integer[])
ORDER BY partition;

-- name: cursors_release
-- Release cursors; release is a change of owner, so the epoch rises. In doubt: records that were handed out may come again,
-- as after a crash. Walks the primary key, locks the rows in order. As an array: the subquery of an IN may be run anew,
-- locks and all, for each row of the table.
UPDATE penstock_cursor SET owner = NULL, epoch = epoch + 1,
    crashes = CASE WHEN partition = ANY(:in_doubt::integer[]) THEN greatest(crashes, 1) ELSE crashes END
WHERE group_id = :group_id AND topic_id = :topic_id AND partition = ANY(ARRAY(
    SELECT partition FROM penstock_cursor
    WHERE group_id = :group_id AND topic_id = :topic_id AND owner = :owner
      AND partition = ANY(:partitions::integer[])
    ORDER BY partition FOR UPDATE));

-- name: cursors_reset
-- Set cursors, in a new epoch and version, so that no later settling of their owner is written. An owner that lives has not
-- crashed, so it is no longer the owner, but its records in flight may come again, marked as after a crash; an owner that
-- does not live stays, and the next owner counts it. No record is suspected any more; of the records handed out only as
-- many are marked as an owner has in flight. Walks the primary key; the rows are locked already.
-- without update_from: for_each(targets, cursors_reset_one)
WITH w AS MATERIALIZED (SELECT t.partition, t.place FROM rows(:targets, partition integer, place bigint) AS t)
UPDATE penstock_cursor AS c
SET "offset" = w.place, passed = '', epoch = c.epoch + 1, version = c.version + 1,
    handed_to = least(c.handed_to, w.place + :in_hand::bigint), kept_back = '',
    trial = '', crashes = CASE WHEN c.owner = ANY(:living::text[]) THEN 1 ELSE least(c.crashes, 1) END,
    owner = CASE WHEN c.owner = ANY(:living::text[]) THEN NULL ELSE c.owner END
FROM w
WHERE c.group_id = :group_id AND c.topic_id = :topic_id AND c.partition = w.partition;

-- name: cursors_reset_one
-- The second form of cursors_reset, for one cursor; walks the primary key; the row is locked already.
UPDATE penstock_cursor
SET "offset" = :place, passed = '', epoch = epoch + 1, version = version + 1,
    handed_to = least(handed_to, :place::bigint + :in_hand::bigint), kept_back = '',
    trial = '', crashes = CASE WHEN owner = ANY(:living::text[]) THEN 1 ELSE least(crashes, 1) END,
    owner = CASE WHEN owner = ANY(:living::text[]) THEN NULL ELSE owner END
WHERE group_id = :group_id AND topic_id = :topic_id AND partition = :partition;

-- name: cursors_seize
-- Let cursors be taken afresh: the epoch rises, so that no later settling of their owner is written. An owner that lives
-- has not crashed, so it is no longer the owner, but its records in flight may come again, marked as after a crash; an
-- owner that does not live stays, and the next owner counts it. Walks the primary key; the rows are locked already.
UPDATE penstock_cursor
SET epoch = epoch + 1, crashes = CASE WHEN owner = ANY(:living::text[]) THEN greatest(crashes, 1) ELSE crashes END,
    owner = CASE WHEN owner = ANY(:living::text[]) THEN NULL ELSE owner END
WHERE group_id = :group_id AND topic_id = :topic_id AND partition = ANY(:partitions::integer[]);

-- name: cursors_lanes_changed
-- Record that lanes of cursors were changed, so that an owner that does not know of it writes nothing before it has learned
-- of it. Walks the primary key; the rows are locked already.
UPDATE penstock_cursor
SET lanes_version = lanes_version + 1
WHERE group_id = :group_id AND topic_id = :topic_id AND partition = ANY(:partitions::integer[]);

-- name: cursors_lanes_versions
-- How often the lanes of some cursors were changed by others than their owner, with the owner columns of the rows; walks
-- the primary key, locks the rows in order.
SELECT partition, epoch, version, lanes_version FROM penstock_cursor
WHERE group_id = :group_id AND topic_id = :topic_id AND owner = :owner AND partition = ANY(:partitions::integer[])
ORDER BY partition FOR UPDATE;

-- name: cursors_settle
-- Move cursors, each only as its owner in this epoch, only from the version it was left in, and only knowing its lanes.
-- Every engine that can do it in one statement has its own, which walks the primary key and locks in order.
-- without returning, update_from: for_each(settled, cursors_settle_one)

-- name: cursors_settle_one
-- The second form of cursors_settle, for one cursor; walks the primary key, locks that row.
UPDATE penstock_cursor
SET "offset" = :base, passed = :passed, version = version + 1, crashes = :crashes, trial = :trial,
    handed_to = :handed_to, kept_back = :kept_back
WHERE group_id = :group_id AND topic_id = :topic_id AND partition = :partition
  AND owner = :owner AND epoch = :epoch AND version = :version AND lanes_version = :lanes_version;

-- name: cursors_of
-- The cursors that some members own; walks the primary key, locks nothing: the caller holds the group.
SELECT partition, owner FROM penstock_cursor
WHERE group_id = :group_id AND topic_id = :topic_id AND owner = ANY(:owners::text[]);

-- name: cursors_take
-- Take the cursors that have work (records behind them, or a lane that is due) and that no member in this list of living
-- members owns. A new owner is a new epoch; an owner that did not release is counted as a crash. Walks the primary keys;
-- locks in order, skipping locked rows. As an array: the subquery of an IN may be run anew, locks and all, for each row of
-- the table.
-- without returning: find_then_change(cursors_take_find, cursors_take_write)
UPDATE penstock_cursor
SET owner = :owner, epoch = epoch + 1,
    crashes = crashes + CASE WHEN owner IS NULL THEN 0 ELSE 1 END
WHERE group_id = :group_id AND topic_id = :topic_id AND partition = ANY(ARRAY(
    SELECT c.partition FROM rows(:ends, partition integer, place bigint) AS h
    CROSS JOIN penstock_cursor c ON c.group_id = :group_id AND c.topic_id = :topic_id AND c.partition = h.partition
    WHERE (c.owner IS NULL OR c.owner <> ALL(:living::text[]))
      AND (h.place > c."offset" OR EXISTS (
            SELECT 1 FROM penstock_lane l
            WHERE l.group_id = c.group_id AND l.topic_id = c.topic_id AND l.partition = c.partition
              AND l.state <> 'held' AND l.due_ms <= now_ms(:now_ms)))
    ORDER BY c.partition FOR UPDATE OF c SKIP LOCKED))
RETURNING partition, "offset", epoch, version, passed, crashes, trial, lanes_version, handed_to, kept_back;

-- name: cursors_take_find
-- The second form of cursors_take, first step: the cursors to take, as they will be then; walks the primary keys, locks in
-- order, skipping locked rows.
SELECT c.partition, c."offset", c.epoch + 1, c.version, c.passed,
       c.crashes + CASE WHEN c.owner IS NULL THEN 0 ELSE 1 END, c.trial, c.lanes_version, c.handed_to, c.kept_back
FROM rows(:ends, partition integer, place bigint) AS h
CROSS JOIN penstock_cursor c ON c.group_id = :group_id AND c.topic_id = :topic_id AND c.partition = h.partition
WHERE (c.owner IS NULL OR c.owner <> ALL(:living::text[]))
  AND (h.place > c."offset" OR EXISTS (
        SELECT 1 FROM penstock_lane l
        WHERE l.group_id = c.group_id AND l.topic_id = c.topic_id AND l.partition = c.partition
          AND l.state <> 'held' AND l.due_ms <= now_ms(:now_ms)))
ORDER BY c.partition FOR UPDATE OF c SKIP LOCKED;

-- name: cursors_take_write
-- The second form of cursors_take, second step; walks the primary key, the rows are locked already.
UPDATE penstock_cursor
SET crashes = crashes + CASE WHEN owner IS NULL THEN 0 ELSE 1 END, owner = :owner, epoch = epoch + 1
WHERE group_id = :group_id AND topic_id = :topic_id AND partition = ANY(:found::integer[]);

-- name: cursors_take_wanted
-- Take the cursors that were meant for this member and that no member in this list of living members owns. A new owner is a
-- new epoch; an owner that did not release is counted as a crash. Walks the primary key; locks in order, skipping locked
-- rows. As an array: the subquery of an IN may be run anew, locks and all, for each row of the table.
-- without returning: find_then_change(cursors_take_wanted_find, cursors_take_write)
UPDATE penstock_cursor
SET owner = :owner, epoch = epoch + 1,
    crashes = crashes + CASE WHEN owner IS NULL THEN 0 ELSE 1 END
WHERE group_id = :group_id AND topic_id = :topic_id AND partition = ANY(ARRAY(
    SELECT partition FROM penstock_cursor
    WHERE group_id = :group_id AND topic_id = :topic_id AND owner_wanted = :owner
      AND (owner IS NULL OR owner <> ALL(:living::text[]))
    ORDER BY partition FOR UPDATE SKIP LOCKED))
RETURNING partition, "offset", epoch, version, passed, crashes, trial, lanes_version, handed_to, kept_back;

-- name: cursors_take_wanted_find
-- The second form of cursors_take_wanted, first step: the cursors to take, as they will be then; walks the primary key,
-- locks in order, skipping locked rows.
SELECT partition, "offset", epoch + 1, version, passed, crashes + CASE WHEN owner IS NULL THEN 0 ELSE 1 END, trial,
       lanes_version, handed_to, kept_back
FROM penstock_cursor
WHERE group_id = :group_id AND topic_id = :topic_id AND owner_wanted = :owner
  AND (owner IS NULL OR owner <> ALL(:living::text[]))
ORDER BY partition FOR UPDATE SKIP LOCKED;

-- name: cursors_commit
-- Store a client's commit: its positions in some partitions, and its metadata. Walks the primary key.
-- without on_conflict: update_or_insert_each(commits, cursors_commit_update, cursors_commit_insert)
INSERT INTO penstock_cursor (group_id, topic_id, partition, "offset", metadata, leader_epoch)
SELECT :group_id, :topic_id, c.partition, c.place, c.metadata, c.leader_epoch
FROM rows(:commits, partition integer, place bigint, metadata text, leader_epoch integer) AS c WHERE true
ON CONFLICT (group_id, topic_id, partition)
DO UPDATE SET "offset" = excluded."offset", metadata = excluded.metadata, leader_epoch = excluded.leader_epoch,
              version = penstock_cursor.version + 1;

-- name: cursors_commit_insert
-- The second form of cursors_commit, for a new cursor; walks the primary key.
INSERT INTO penstock_cursor (group_id, topic_id, partition, "offset", metadata, leader_epoch)
VALUES (:group_id, :topic_id, :partition, :place, :metadata, :leader_epoch);

-- name: cursors_commit_update
-- The second form of cursors_commit, for an existing cursor; walks the primary key, locks that row.
UPDATE penstock_cursor SET "offset" = :place, metadata = :metadata, leader_epoch = :leader_epoch, version = version + 1
WHERE group_id = :group_id AND topic_id = :topic_id AND partition = :partition;

-- name: cursors_of_client
-- All commits of a client group; walks the primary key, locks nothing.
SELECT topic_id, partition, "offset", metadata, leader_epoch FROM penstock_cursor
WHERE group_id = :group_id ORDER BY topic_id, partition;

-- name: cursors_forget
-- Forget a client group's positions in some partitions; walks the primary key, locks those rows.
DELETE FROM penstock_cursor WHERE group_id = :group_id AND (topic_id, partition) IN (
    SELECT w.topic_id, w.partition FROM rows(:places, topic_id integer, partition integer) AS w);

-- name: pending_offsets
-- The offsets that an open transaction will commit; walks the primary key, locks nothing: its producer is locked.
SELECT group_id, topic_id, partition, "offset", metadata, leader_epoch FROM penstock_pending_offset
WHERE producer_id = :producer_id ORDER BY group_id, topic_id, partition;

-- name: pending_offsets_of
-- The partitions that open transactions will commit for a group; reads the table, which holds open transactions only.
SELECT DISTINCT topic_id, partition FROM penstock_pending_offset WHERE group_id = :group_id;

-- name: pending_offsets_add
-- Hold back the offsets that a transaction will commit; its earlier ones are deleted already, its producer is locked.
INSERT INTO penstock_pending_offset (producer_id, group_id, topic_id, partition, "offset", metadata, leader_epoch)
SELECT :producer_id, :group_id, c.topic_id, c.partition, c.place, c.metadata, c.leader_epoch
FROM rows(:commits, topic_id integer, partition integer, place bigint, metadata text, leader_epoch integer) AS c WHERE true;

-- name: pending_offsets_forget
-- Delete a transaction's earlier offsets for some partitions; walks the primary key. Its producer is locked.
DELETE FROM penstock_pending_offset WHERE producer_id = :producer_id AND group_id = :group_id AND (topic_id, partition) IN (
    SELECT c.topic_id, c.partition
    FROM rows(:commits, topic_id integer, partition integer, place bigint, metadata text, leader_epoch integer) AS c);

-- name: pending_offsets_delete
-- Forget the offsets that a transaction would have committed; walks the primary key. Its producer is locked.
DELETE FROM penstock_pending_offset WHERE producer_id = :producer_id;

-- == Dead letters: records that a group has given up

-- name: dead_headers
-- The headers of dead letters, by their places; walks the primary key, locks nothing. The cursors' locks are held already.
SELECT d.partition, d."offset", d.headers
FROM rows(:letters, partition integer, place bigint) AS w
CROSS JOIN penstock_dead d ON d.group_id = :group_id AND d.topic_id = :topic_id AND d.partition = w.partition
 AND d."offset" = w.place;

-- name: dead_holding
-- Those of some lanes that a dead letter holds; walks the primary key over their partitions, once, locks nothing. The
-- cursors' locks are held already.
SELECT DISTINCT partition, lane, whole, late, alone FROM penstock_dead
WHERE group_id = :group_id AND topic_id = :topic_id AND holding
  AND partition IN (SELECT w.partition FROM
    rows(:lanes, partition integer, lane text, whole boolean, late boolean, alone bigint) AS w)
  AND (partition, lane, whole, late, alone) IN (
    SELECT w.partition, w.lane, w.whole, w.late, w.alone FROM
    rows(:lanes, partition integer, lane text, whole boolean, late boolean, alone bigint) AS w);

-- name: dead_peek
-- Dead letters by their places; walks the primary key, locks nothing. The cursors' locks are held already.
SELECT d.partition, d."offset", d.lane, d.whole, d.late, d.alone, d.holding
FROM rows(:letters, partition integer, place bigint) AS w
CROSS JOIN penstock_dead d ON d.group_id = :group_id AND d.topic_id = :topic_id AND d.partition = w.partition
 AND d."offset" = w.place;

-- name: dead_put
-- Store a record that is given up, with all its content; walks the primary key. The cursors' locks are held already.
-- without on_conflict: update_or_insert_each(rows, dead_put_update, dead_put_insert)
INSERT INTO penstock_dead (group_id, topic_id, partition, "offset", lane, whole, late, alone, holding, failures, reason,
                           died_ms, id, key, type, value, headers, timestamp_ms, owner)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (group_id, topic_id, partition, "offset")
DO UPDATE SET lane = excluded.lane, whole = excluded.whole, late = excluded.late, alone = excluded.alone,
              holding = excluded.holding, failures = excluded.failures, reason = excluded.reason, died_ms = excluded.died_ms, reset_ms = NULL;

-- name: dead_put_update
-- The second form of dead_put, for an existing letter; walks the primary key, locks that row.
UPDATE penstock_dead
SET lane = :lane, whole = :whole, late = :late, alone = :alone, holding = :holding, failures = :failures, reason = :reason, died_ms = :died_ms, reset_ms = NULL
WHERE group_id = :group_id AND topic_id = :topic_id AND partition = :partition AND "offset" = :place;

-- name: dead_put_insert
-- The second form of dead_put, for a new letter; walks the primary key. The cursors' locks are held already.
INSERT INTO penstock_dead (group_id, topic_id, partition, "offset", lane, whole, late, alone, holding, failures, reason,
                           died_ms, id, key, type, value, headers, timestamp_ms, owner)
VALUES (:group_id, :topic_id, :partition, :place, :lane, :whole, :late, :alone, :holding, :failures, :reason, :died_ms,
        :id, :key, :type, :value, :headers, :timestamp_ms, :owner);

-- name: dead_reset
-- Mark the dead letters of some partitions as older than a reset; those from an offset on no longer hold their lanes. Walks
-- the primary key; locks those rows. The cursors' locks are held already.
-- without update_from: for_each(floors, dead_reset_one)
WITH w AS MATERIALIZED (SELECT f.partition, f.place FROM rows(:floors, partition integer, place bigint) AS f)
UPDATE penstock_dead AS d
SET reset_ms = now_ms(:now_ms), holding = CASE WHEN d."offset" >= w.place THEN false ELSE d.holding END
FROM w
WHERE d.group_id = :group_id AND d.topic_id = :topic_id AND d.partition = w.partition;

-- name: dead_reset_one
-- The second form of dead_reset, for one partition; walks the primary key, locks those rows. The cursors' locks are held
-- already.
UPDATE penstock_dead
SET reset_ms = now_ms(:now_ms), holding = CASE WHEN "offset" >= :place THEN false ELSE holding END
WHERE group_id = :group_id AND topic_id = :topic_id AND partition = :partition;

-- name: dead_skip
-- Make dead letters hold their lanes no longer, and return those that did; walks the primary key, locks those rows. The
-- cursors' locks are held already.
-- without returning: find_then_change(dead_skip_find, dead_skip_write)
UPDATE penstock_dead SET holding = false
WHERE group_id = :group_id AND topic_id = :topic_id AND holding AND (partition, "offset") IN (
    SELECT w.partition, w.place FROM rows(:letters, partition integer, place bigint) AS w)
RETURNING partition, "offset", lane, whole, late, alone, true;

-- name: dead_skip_find
-- The second form of dead_skip, first step; walks the primary key, locks those rows.
SELECT d.partition, d."offset", d.lane, d.whole, d.late, d.alone, true
FROM rows(:letters, partition integer, place bigint) AS w
CROSS JOIN penstock_dead d ON d.group_id = :group_id AND d.topic_id = :topic_id AND d.partition = w.partition
 AND d."offset" = w.place
WHERE d.holding
FOR UPDATE OF d;

-- name: dead_skip_write
-- The second form of dead_skip, second step; walks the primary key, the rows are locked already.
UPDATE penstock_dead SET holding = false
WHERE group_id = :group_id AND topic_id = :topic_id AND holding AND (partition, "offset") IN (
    SELECT w.partition, w.place FROM rows(:letters, partition integer, place bigint) AS w);

-- name: dead_take
-- Remove dead letters that are decided on, and return them; walks the primary key, locks those rows. The cursors' locks are
-- held already.
-- without returning: find_then_change(dead_peek, dead_drop)
DELETE FROM penstock_dead WHERE group_id = :group_id AND topic_id = :topic_id AND (partition, "offset") IN (
    SELECT w.partition, w.place FROM rows(:letters, partition integer, place bigint) AS w)
RETURNING partition, "offset", lane, whole, late, alone, holding;

-- name: dead_drop
-- The second form of dead_take, second step; walks the primary key. The cursors' locks are held already.
DELETE FROM penstock_dead WHERE group_id = :group_id AND topic_id = :topic_id AND (partition, "offset") IN (
    SELECT w.partition, w.place FROM rows(:letters, partition integer, place bigint) AS w);

-- == Fallbacks: records that only the fallback of their handler completed

-- name: fallbacks_drop
-- Forget how some records were completed; walks the primary key. The cursors' locks are held already.
DELETE FROM penstock_fallback WHERE group_id = :group_id AND topic_id = :topic_id AND (partition, "offset") IN (
    SELECT w.partition, w.place FROM rows(:places, partition integer, place bigint) AS w);

-- name: fallbacks_put
-- Write which records only a fallback completed; walks the primary key. The cursors' locks are held already.
INSERT INTO penstock_fallback (group_id, topic_id, partition, "offset", failures, reason, completed_ms)
SELECT :group_id, :topic_id, w.partition, w.place, w.failures, w.reason, :completed_ms
FROM rows(:noted, partition integer, place bigint, failures integer, reason text) AS w;

-- name: fallbacks_reset
-- Forget how records from an offset on were completed, in each of some partitions: they come again. Walks the primary key.
-- The cursors' locks are held already.
DELETE FROM penstock_fallback WHERE group_id = :group_id AND topic_id = :topic_id AND EXISTS (
    SELECT 1 FROM rows(:targets, partition integer, place bigint) AS w
    WHERE w.partition = penstock_fallback.partition AND w.place <= penstock_fallback."offset");

-- name: fallbacks_trim
-- Forget how records before the end of some ranges were completed, since the log no longer holds them; reads the table,
-- which holds failures only.
DELETE FROM penstock_fallback WHERE topic_id = :topic_id AND EXISTS (
    SELECT 1 FROM rows(:ranges, partition integer, low bigint, high bigint) AS w
    WHERE w.partition = penstock_fallback.partition AND w.high > penstock_fallback."offset");

-- == Entries: records that wait in lanes

-- name: entries_count
-- How many records wait in each of some lanes; walks the primary key over their partitions, once, locks nothing.
SELECT partition, lane, whole, late, alone, count(*) FROM penstock_lane_entry
WHERE group_id = :group_id AND topic_id = :topic_id
  AND partition IN (SELECT w.partition FROM
    rows(:lanes, partition integer, lane text, whole boolean, late boolean, alone bigint) AS w)
  AND (partition, lane, whole, late, alone) IN (
    SELECT w.partition, w.lane, w.whole, w.late, w.alone FROM
    rows(:lanes, partition integer, lane text, whole boolean, late boolean, alone bigint) AS w)
GROUP BY partition, lane, whole, late, alone;

-- name: entries_drop
-- Remove settled records of waiting lanes; walks the primary key. The cursors' locks are held already.
DELETE FROM penstock_lane_entry WHERE group_id = :group_id AND topic_id = :topic_id AND (partition, "offset") IN (
    SELECT w.partition, w.place FROM rows(:entries, partition integer, place bigint) AS w);

-- name: entries_find
-- Those of some records that wait in a lane; walks the primary key, locks nothing. The cursors' locks are held already.
SELECT e.partition, e."offset"
FROM rows(:entries, partition integer, place bigint) AS w
CROSS JOIN penstock_lane_entry e ON e.group_id = :group_id AND e.topic_id = :topic_id AND e.partition = w.partition
 AND e."offset" = w.place;

-- name: entries_heads
-- The oldest record of each of some lanes; walks the primary key over their partitions, once, locks nothing.
SELECT partition, lane, whole, late, alone, min("offset") FROM penstock_lane_entry
WHERE group_id = :group_id AND topic_id = :topic_id
  AND partition IN (SELECT w.partition FROM
    rows(:lanes, partition integer, lane text, whole boolean, late boolean, alone bigint) AS w)
  AND (partition, lane, whole, late, alone) IN (
    SELECT w.partition, w.lane, w.whole, w.late, w.alone FROM
    rows(:lanes, partition integer, lane text, whole boolean, late boolean, alone bigint) AS w)
GROUP BY partition, lane, whole, late, alone;

-- name: entries_load
-- The records of the waiting lanes of some partitions, and whether each has a copy; walks the primary key, locks nothing.
SELECT partition, lane, whole, late, alone, "offset", id IS NOT NULL FROM penstock_lane_entry
WHERE group_id = :group_id AND topic_id = :topic_id AND partition = ANY(:partitions::integer[])
ORDER BY "offset";

-- name: entries_put
-- Write records of waiting lanes that the cursor passes; an existing one only changes its lane. Walks the primary key. The
-- cursors' locks are held already.
-- without on_conflict: update_or_insert_each(entries, entries_put_update, entries_put_insert)
INSERT INTO penstock_lane_entry (group_id, topic_id, partition, "offset", lane, whole, late, alone)
SELECT :group_id, :topic_id, e.partition, e.place, e.lane, e.whole, e.late, e.alone
FROM rows(:entries, partition integer, place bigint, lane text, whole boolean, late boolean, alone bigint) AS e
WHERE true
ON CONFLICT (group_id, topic_id, partition, "offset")
DO UPDATE SET lane = excluded.lane, whole = excluded.whole, late = excluded.late, alone = excluded.alone;

-- name: entries_put_update
-- The second form of entries_put, for an existing entry; walks the primary key, locks that row.
UPDATE penstock_lane_entry SET lane = :lane, whole = :whole, late = :late, alone = :alone
WHERE group_id = :group_id AND topic_id = :topic_id AND partition = :partition AND "offset" = :place;

-- name: entries_put_insert
-- The second form of entries_put, for a new entry; walks the primary key. The cursors' locks are held already.
INSERT INTO penstock_lane_entry (group_id, topic_id, partition, "offset", lane, whole, late, alone)
VALUES (:group_id, :topic_id, :partition, :place, :lane, :whole, :late, :alone);

-- name: entries_reset
-- Remove the records of waiting lanes from an offset on, in each of some partitions; walks the primary key. The cursors'
-- locks are held already.
DELETE FROM penstock_lane_entry WHERE group_id = :group_id AND topic_id = :topic_id AND (partition, "offset") IN (
    SELECT e.partition, e."offset" FROM rows(:floors, partition integer, place bigint) AS w
    CROSS JOIN penstock_lane_entry e ON e.group_id = :group_id AND e.topic_id = :topic_id
     AND e.partition = w.partition AND e."offset" >= w.place);

-- name: entries_return
-- Put dead letters back into lanes, each with the copy of its record: the log may have lost it by now. Walks the primary
-- keys. The cursors' locks are held already.
INSERT INTO penstock_lane_entry (group_id, topic_id, partition, "offset", lane, whole, late, alone,
                                 id, key, type, value, headers, timestamp_ms, owner)
SELECT d.group_id, d.topic_id, d.partition, d."offset", w.lane, w.whole, w.late, w.alone,
       d.id, d.key, d.type, d.value, d.headers, d.timestamp_ms, d.owner
FROM rows(:entries, partition integer, place bigint, lane text, whole boolean, late boolean, alone bigint) AS w
CROSS JOIN penstock_dead d ON d.group_id = :group_id AND d.topic_id = :topic_id AND d.partition = w.partition
 AND d."offset" = w.place;

-- name: entries_take
-- Remove records from the lanes they wait in, and return them; walks the primary key, locks those rows. The cursors' locks
-- are held already.
-- without returning: find_then_change(entries_take_find, entries_drop)
DELETE FROM penstock_lane_entry WHERE group_id = :group_id AND topic_id = :topic_id AND (partition, "offset") IN (
    SELECT w.partition, w.place FROM rows(:entries, partition integer, place bigint) AS w)
RETURNING partition, "offset", lane, whole, late, alone;

-- name: entries_take_find
-- The second form of entries_take, first step; walks the primary key, locks those rows.
SELECT e.partition, e."offset", e.lane, e.whole, e.late, e.alone
FROM rows(:entries, partition integer, place bigint) AS w
CROSS JOIN penstock_lane_entry e ON e.group_id = :group_id AND e.topic_id = :topic_id AND e.partition = w.partition
 AND e."offset" = w.place
FOR UPDATE OF e;

-- name: entry_headers
-- Give the copy of a waiting record other headers; walks the primary key, locks its row. The cursors' locks are held already.
UPDATE penstock_lane_entry SET headers = :headers::bytea
WHERE group_id = :group_id AND topic_id = :topic_id AND partition = :partition AND "offset" = :offset;

-- == Lanes that wait

-- name: lanes_drop
-- Remove lanes that flow again; walks the primary key. The cursors' locks are held already.
DELETE FROM penstock_lane WHERE group_id = :group_id AND topic_id = :topic_id AND (partition, lane, whole, late, alone) IN (
    SELECT w.partition, w.lane, w.whole, w.late, w.alone FROM
    rows(:lanes, partition integer, lane text, whole boolean, late boolean, alone bigint) AS w);

-- name: lanes_forget
-- Remove the lanes of some partitions that have neither a record nor a letter that holds them; walks the primary keys,
-- each once. The cursors' locks are held already.
DELETE FROM penstock_lane WHERE group_id = :group_id AND topic_id = :topic_id
  AND partition = ANY(:partitions::integer[])
  AND (partition, lane, whole, late, alone) NOT IN (
    SELECT e.partition, e.lane, e.whole, e.late, e.alone FROM penstock_lane_entry e WHERE e.group_id = :group_id AND e.topic_id = :topic_id)
  AND (partition, lane, whole, late, alone) NOT IN (
    SELECT d.partition, d.lane, d.whole, d.late, d.alone FROM penstock_dead d WHERE d.group_id = :group_id AND d.topic_id = :topic_id AND d.holding);

-- name: lanes_held
-- Those of some lanes that are held; walks the primary key, locks nothing. The cursors' locks are held already.
SELECT l.partition, l.lane, l.whole, l.late, l.alone
FROM rows(:lanes, partition integer, lane text, whole boolean, late boolean, alone bigint) AS w
CROSS JOIN penstock_lane l ON l.group_id = :group_id AND l.topic_id = :topic_id AND l.partition = w.partition
 AND l.lane = w.lane AND l.whole = w.whole AND l.late = w.late AND l.alone = w.alone
WHERE l.state = 'held';

-- name: lanes_moved
-- Those of some lanes that wait for another partition; walks the primary key, locks nothing. The cursors' locks are held
-- already.
SELECT l.partition, l.lane, l.whole, l.late, l.alone
FROM rows(:lanes, partition integer, lane text, whole boolean, late boolean, alone bigint) AS w
CROSS JOIN penstock_lane l ON l.group_id = :group_id AND l.topic_id = :topic_id AND l.partition = w.partition
 AND l.lane = w.lane AND l.whole = w.whole AND l.late = w.late AND l.alone = w.alone
WHERE l.state = 'moved';

-- name: lanes_load
-- The waiting lanes of some partitions; walks the primary key, locks nothing.
SELECT partition, lane, whole, late, alone, state, failures, due_ms, reason, wait_ms FROM penstock_lane
WHERE group_id = :group_id AND topic_id = :topic_id AND partition = ANY(:partitions::integer[]);

-- name: whole_lanes_first
-- The first record of partitions that wait as one lane: one that waits in it, or the dead letter that holds it; walks the
-- entries and the letters of these partitions, locks nothing.
SELECT partition, min("offset") FROM (
    SELECT partition, "offset" FROM penstock_lane_entry
    WHERE group_id = :group_id AND topic_id = :topic_id AND partition = ANY(:partitions::integer[])
      AND whole AND NOT late AND alone = -1
    UNION ALL
    SELECT partition, "offset" FROM penstock_dead
    WHERE group_id = :group_id AND topic_id = :topic_id AND partition = ANY(:partitions::integer[])
      AND whole AND NOT late AND alone = -1 AND holding
) AS waiting GROUP BY partition;

-- name: lanes_put
-- Write waiting lanes; walks the primary key. The cursors' locks are held already.
-- without on_conflict: update_or_insert_each(lanes, lanes_put_update, lanes_put_insert)
INSERT INTO penstock_lane (group_id, topic_id, partition, lane, whole, late, alone, state, failures, due_ms, reason, wait_ms)
SELECT :group_id, :topic_id, l.partition, l.lane, l.whole, l.late, l.alone, l.state, l.failures, l.due_ms, l.reason, l.wait_ms
FROM rows(:lanes, partition integer, lane text, whole boolean, late boolean, alone bigint, state text, failures integer,
          due_ms bigint, reason text, wait_ms bigint) AS l
WHERE true
ON CONFLICT (group_id, topic_id, partition, lane, whole, late, alone)
DO UPDATE SET state = excluded.state, failures = excluded.failures, due_ms = excluded.due_ms,
              reason = excluded.reason, wait_ms = excluded.wait_ms;

-- name: lanes_put_update
-- The second form of lanes_put, for an existing lane; walks the primary key, locks that row.
UPDATE penstock_lane
SET state = :state, failures = :failures, due_ms = :due_ms, reason = :reason, wait_ms = :wait_ms
WHERE group_id = :group_id AND topic_id = :topic_id AND partition = :partition
  AND lane = :lane AND whole = :whole AND late = :late AND alone = :alone;

-- name: lanes_put_insert
-- The second form of lanes_put, for a new lane; walks the primary key. The cursors' locks are held already.
INSERT INTO penstock_lane (group_id, topic_id, partition, lane, whole, late, alone, state, failures, due_ms, reason, wait_ms)
VALUES (:group_id, :topic_id, :partition, :lane, :whole, :late, :alone, :state, :failures, :due_ms, :reason, :wait_ms);

-- name: lanes_unhold
-- Release the lanes of some partitions that no letter holds any more; walks the primary keys, each once. The cursors' locks
-- are held already.
UPDATE penstock_lane SET state = 'slow', failures = 0, due_ms = 0, reason = :reason
WHERE group_id = :group_id AND topic_id = :topic_id AND state = 'held' AND partition = ANY(:partitions::integer[])
  AND (partition, lane, whole, late, alone) NOT IN (
    SELECT d.partition, d.lane, d.whole, d.late, d.alone FROM penstock_dead d WHERE d.group_id = :group_id AND d.topic_id = :topic_id AND d.holding);

-- == Notes: the records a group has passed over, because it had no handler for the type

-- name: notes_types
-- The types that a group has passed over on a topic; walks the primary key, locks nothing.
SELECT DISTINCT type FROM penstock_note WHERE group_id = :group_id AND topic_id = :topic_id;

-- name: notes_load
-- The notes of some types in some partitions; walks the primary key, locks nothing. A transaction that changes them has
-- locked the cursors.
SELECT partition, type, until_offset, first_offset, end_offset, records, holes, wanted_ms, again FROM penstock_note
WHERE group_id = :group_id AND topic_id = :topic_id AND partition = ANY(:partitions::integer[])
  AND type = ANY(:types::text[])
ORDER BY partition, type, until_offset;

-- name: notes_put
-- Write new notes; walks the primary key. The cursors' locks are held already.
INSERT INTO penstock_note (group_id, topic_id, partition, type, until_offset, first_offset, end_offset, records, holes, wanted_ms,
                           again)
SELECT :group_id, :topic_id, n.partition, n.type, n.until, n.place, n.reach, n.records, n.holes, n.wanted_ms, n.again
FROM rows(:notes, partition integer, type text, until bigint, place bigint, reach bigint, records bigint, holes text,
          wanted_ms bigint, again integer) AS n;

-- name: notes_count
-- Count passed-over records: in a new note, or in the open one. Walks the primary key. The cursors' locks are held already.
-- without on_conflict: update_or_insert_each(notes, notes_count_update, notes_count_insert)
INSERT INTO penstock_note (group_id, topic_id, partition, type, until_offset, first_offset, end_offset, records)
SELECT :group_id, :topic_id, n.partition, n.type, n.until, n.place, n.reach, n.records
FROM rows(:notes, partition integer, type text, until bigint, place bigint, reach bigint, records bigint) AS n
WHERE true
ON CONFLICT (group_id, topic_id, partition, type, until_offset)
DO UPDATE SET end_offset = excluded.end_offset, records = penstock_note.records + excluded.records;

-- name: notes_count_update
-- The second form of notes_count, for an existing note; walks the primary key, locks that row.
UPDATE penstock_note SET end_offset = :reach, records = records + :records
WHERE group_id = :group_id AND topic_id = :topic_id AND partition = :partition AND type = :type AND until_offset = :until;

-- name: notes_count_insert
-- The second form of notes_count, for a new note; walks the primary key. The cursors' locks are held already.
INSERT INTO penstock_note (group_id, topic_id, partition, type, until_offset, first_offset, end_offset, records)
VALUES (:group_id, :topic_id, :partition, :type, :until, :place, :reach, :records);

-- name: notes_move
-- Move notes on past the records delivered late. Walks the primary key. The cursors' locks are held already.
-- without update_from: for_each(notes, notes_move_one)
WITH w AS MATERIALIZED (
    SELECT n.partition, n.type, n.until, n.place
    FROM rows(:notes, partition integer, type text, until bigint, place bigint) AS n)
UPDATE penstock_note AS n SET first_offset = w.place
FROM w
WHERE n.group_id = :group_id AND n.topic_id = :topic_id AND n.partition = w.partition AND n.type = w.type
  AND n.until_offset = w.until;

-- name: notes_move_one
-- The second form of notes_move, for one note; walks the primary key, locks that row.
UPDATE penstock_note SET first_offset = :place
WHERE group_id = :group_id AND topic_id = :topic_id AND partition = :partition AND type = :type AND until_offset = :until;

-- name: notes_drop
-- Remove notes that are used up; walks the primary key. The cursors' locks are held already.
DELETE FROM penstock_note WHERE group_id = :group_id AND topic_id = :topic_id AND (partition, type, until_offset) IN (
    SELECT n.partition, n.type, n.until FROM rows(:notes, partition integer, type text, until bigint) AS n);

-- name: notes_reset
-- Remove the notes of some partitions; walks the primary key. The cursors' locks are held already.
DELETE FROM penstock_note
WHERE group_id = :group_id AND topic_id = :topic_id AND partition = ANY(:partitions::integer[]);

-- name: notes_want
-- Have the passed-over records of some types delivered late, from a moment on; walks the primary key. The cursors' locks
-- are held already.
UPDATE penstock_note SET wanted_ms = :wanted_ms
WHERE group_id = :group_id AND topic_id = :topic_id AND partition = ANY(:partitions::integer[])
  AND type = ANY(:types::text[]) AND (wanted_ms IS NULL OR wanted_ms > :wanted_ms);

-- == Groups

-- name: filter_keep
-- The version of a group's filter; walks the primary key, and locks the row against a change until the end.
SELECT filter_version FROM penstock_group WHERE id = :group_id FOR SHARE;

-- name: group_create
-- Make a group unless it is there; locks the name.
-- without on_conflict: instead(group_create_missing)
INSERT INTO penstock_group (name, created_ms, kind, holds)
VALUES (:name, now_ms(:now_ms), :kind, :holds)
ON CONFLICT (name) DO NOTHING;

-- name: group_create_missing
-- The second form of group_create; walks the unique index on name.
INSERT INTO penstock_group (name, created_ms, kind, holds)
SELECT :name, now_ms(:now_ms), :kind, :holds WHERE NOT EXISTS (SELECT 1 FROM penstock_group g WHERE g.name = :name);

-- name: group_find
-- A group's id; walks the unique index on name, locks nothing.
SELECT id, kind FROM penstock_group WHERE name = :name;

-- name: client_groups
-- The names of all groups of clients; reads the table, which is small, locks nothing.
SELECT id, name FROM penstock_group WHERE kind = 'client' ORDER BY name;

-- name: group_lock
-- Wait for the turn to take a group's cursors; locks its row, so that each taker sees what the previous one took. Returns
-- also the filters of its handlers, the present one first, and since when it is paused.
SELECT id, filters, filter_version, paused_ms FROM penstock_group WHERE id = :group_id FOR UPDATE;

-- name: group_paused
-- Since when a group is paused; walks the primary key, locks nothing.
SELECT paused_ms FROM penstock_group WHERE id = :group_id;

-- name: group_seen
-- Record that groups have a member; locks the rows of those last seen over an hour ago, walks the unique index on name.
UPDATE penstock_group SET seen_ms = now_ms(:now_ms)
WHERE name = ANY(:names::text[]) AND seen_ms < now_ms(:now_ms) - 3600000;

-- == Measures

-- name: gauge_cursors
-- The position of each group of handlers in every partition, and whether one member owns it, or no living one; reads the
-- cursors, locks nothing. Compared with the ends of the log in Python: joined with a list, SQLite walks it for each cursor.
SELECT g.name, c.topic_id, c.partition, c."offset", c.owner = :owner,
       c.owner IS NULL OR c.owner <> ALL(:living::text[])
FROM penstock_group g
CROSS JOIN penstock_cursor c ON c.group_id = g.id
WHERE g.kind = 'handler';

-- name: gauge_waiting
-- How many lanes of each group of handlers wait by themselves, how many for a person, and how many dead letters it has,
-- each counted up to a limit; reads the lanes and walks the letters' primary key up to it, locks nothing.
SELECT g.name,
       (SELECT count(*) FROM (
           SELECT 1 FROM penstock_lane l WHERE l.group_id = g.id AND l.state <> 'held' LIMIT :most) AS w),
       (SELECT count(*) FROM (SELECT 1 FROM penstock_lane l WHERE l.group_id = g.id AND l.state = 'held' LIMIT :most) AS h),
       (SELECT count(*) FROM (SELECT 1 FROM penstock_dead d WHERE d.group_id = g.id LIMIT :most) AS d)
FROM penstock_group g WHERE g.kind = 'handler';

-- == Retention: the records that groups still need

-- name: cursors_slowest
-- The slowest cursor in each partition of the groups that hold records back: those of a kind that does, seen lately; every
-- group, if the period begins at the beginning of time. Walks the groups and, for each, the primary key; locks nothing.
SELECT c.partition, min(c."offset")
FROM penstock_group g
CROSS JOIN penstock_cursor c ON c.group_id = g.id AND c.topic_id = :topic_id
WHERE (g.holds OR :seen_since = 0) AND greatest(g.seen_ms, g.created_ms) >= :seen_since
GROUP BY c.partition;

-- name: cursors_behind
-- The groups that hold records back, seen lately, that are before the end of some ranges; walks the groups and, for each
-- range, the primary key, locks nothing. The trimming transaction has locked the log's heads already.
SELECT DISTINCT g.name
FROM rows(:ranges, partition integer, low bigint, high bigint) AS w
CROSS JOIN penstock_group g
CROSS JOIN penstock_cursor c ON c.group_id = g.id AND c.topic_id = :topic_id AND c.partition = w.partition
WHERE (g.holds OR :seen_since = 0) AND greatest(g.seen_ms, g.created_ms) >= :seen_since AND c."offset" < w.high
ORDER BY g.name;

-- name: cursors_hold_some
-- Keep the owners of some cursors from settling until the end; locks those rows in order, walks the primary key.
SELECT c.group_id, c.partition
FROM rows(:cursors, group_id integer, partition integer) AS w
CROSS JOIN penstock_cursor c ON c.group_id = w.group_id AND c.topic_id = :topic_id AND c.partition = w.partition
ORDER BY c.group_id, c.partition
FOR UPDATE OF c;

-- name: entries_copy
-- Give a waiting record a copy of its own, before the log deletes it; walks the primary key. The cursors' locks are held
-- already.
UPDATE penstock_lane_entry
SET id = ?, key = ?, type = ?, value = ?, headers = ?, timestamp_ms = ?, owner = ?
WHERE group_id = ? AND topic_id = ? AND partition = ? AND "offset" = ?;

-- name: entries_uncopied
-- The records of some ranges that wait in lanes and have no copy yet; walks the primary key, for each group and range. The
-- cursors' locks are held already.
SELECT e.group_id, e.partition, e."offset"
FROM rows(:ranges, partition integer, low bigint, high bigint) AS w
CROSS JOIN penstock_group g
CROSS JOIN penstock_lane_entry e ON e.group_id = g.id AND e.topic_id = :topic_id AND e.partition = w.partition
 AND e."offset" >= w.low AND e."offset" < w.high
WHERE e.id IS NULL;

-- name: entries_waiting_in
-- The partitions and groups with waiting records in some ranges of offsets that are not copied yet; walks the primary key
-- once for each group and range, locks nothing.
SELECT DISTINCT g.id, e.partition
FROM rows(:ranges, partition integer, low bigint, high bigint) AS w
CROSS JOIN penstock_group g
CROSS JOIN penstock_lane_entry e ON e.group_id = g.id AND e.topic_id = :topic_id AND e.partition = w.partition
 AND e."offset" >= w.low AND e."offset" < w.high
WHERE e.id IS NULL
ORDER BY g.id, e.partition;

-- == Forgetting a topic

-- name: cursors_delete
-- Remove every group's cursors on a topic; reads the table, which is small.
DELETE FROM penstock_cursor WHERE topic_id = :topic_id;

-- name: dead_delete
-- Remove the dead letters of a deleted topic; reads the table, which holds failures only.
DELETE FROM penstock_dead WHERE topic_id = :topic_id;

-- name: entries_delete
-- Remove the lane entries of a deleted topic; reads the table, which holds failures only.
DELETE FROM penstock_lane_entry WHERE topic_id = :topic_id;

-- name: fallbacks_delete
-- Forget how records of a deleted topic were completed; reads the table, which holds failures only.
DELETE FROM penstock_fallback WHERE topic_id = :topic_id;

-- name: lanes_delete
-- Remove the waiting lanes of a deleted topic; reads the table, which holds failures only.
DELETE FROM penstock_lane WHERE topic_id = :topic_id;

-- name: notes_delete
-- Remove the notes of a deleted topic; reads the table, which is small.
DELETE FROM penstock_note WHERE topic_id = :topic_id;

-- name: topics_read
-- The topics that some group has cursors on; reads the cursors, locks nothing.
SELECT DISTINCT topic_id FROM penstock_cursor;

-- == For operations and listings

-- name: group_cursors_delete
-- Remove the cursors of a group; walks the primary key, locks the rows.
DELETE FROM penstock_cursor WHERE group_id = :group_id;

-- name: group_dead_delete
-- Remove the dead letters of a group; walks the primary key, locks the rows.
DELETE FROM penstock_dead WHERE group_id = :group_id;

-- name: group_delete
-- Remove a group's name; walks the primary key. The row is locked already.
DELETE FROM penstock_group WHERE id = :group_id;

-- name: group_entries_delete
-- Remove the lane entries of a group; walks the primary key, locks the rows.
DELETE FROM penstock_lane_entry WHERE group_id = :group_id;

-- name: group_fallbacks_delete
-- Forget how records of a group were completed; walks the primary key, locks the rows.
DELETE FROM penstock_fallback WHERE group_id = :group_id;

-- name: group_lanes_delete
-- Remove the waiting lanes of a group; walks the primary key, locks the rows.
DELETE FROM penstock_lane WHERE group_id = :group_id;

-- name: group_notes_delete
-- Remove the notes of a group; walks the primary key, locks the rows.
DELETE FROM penstock_note WHERE group_id = :group_id;

-- name: group_pause
-- Pause a group, unless it is paused already; walks the primary key, locks the row.
UPDATE penstock_group SET paused_ms = now_ms(:now_ms)
WHERE id = :group_id AND paused_ms IS NULL;

-- name: group_resume
-- Resume a paused group; walks the primary key, locks the row.
UPDATE penstock_group SET paused_ms = NULL WHERE id = :group_id AND paused_ms IS NOT NULL;

-- name: group_topics
-- The topics that a group has cursors on; walks the primary key.
SELECT DISTINCT topic_id FROM penstock_cursor WHERE group_id = :group_id;

-- name: lanes_next
-- When the next lane that waits by itself is due after a moment; reads the lanes, locks nothing.
SELECT min(due_ms) FROM penstock_lane WHERE state <> 'held' AND due_ms > :now_ms::bigint;
