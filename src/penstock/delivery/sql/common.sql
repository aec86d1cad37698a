-- The statements of this room for every engine, in the neutral SQL that log/sql/statements.py describes. Locks are for
-- engines with many writers: in SQLite a transaction that writes is the only one.

-- == Cursors: where a group is in each partition, and who owns it

-- name: cursor_try
-- Write down which record is tried, before it is, in a partition whose owner crashed; the count of crashes begins anew for
-- another record. Only as the owner in this epoch and version. Walks the primary key, locks that row.
UPDATE penstock_cursor
SET trying = :offset, crashes = CASE WHEN trying IS NULL OR trying = :offset THEN crashes ELSE 1 END
WHERE group_id = :group_id AND topic_id = :topic_id AND partition = :partition
  AND owner = :owner AND epoch = :epoch AND version = :version;

-- name: cursors_create
-- Make a group's cursors on a topic, in every partition, when the group is new there: at the start of what is kept, or at
-- the end. Walks the heads and the primary key.
INSERT INTO penstock_cursor (group_id, topic_id, partition, "offset")
SELECT :group_id, h.topic_id, h.partition, CASE WHEN :from_start THEN h.start_offset ELSE h.next_offset END
FROM penstock_head h WHERE h.topic_id = :topic_id
ON CONFLICT DO NOTHING;

-- name: cursors_hold
-- Hold cursors, so that nobody settles or takes them meanwhile; walks the primary key, locks the rows in order, waiting for
-- the settlings under way.
SELECT partition, "offset", passed, trying FROM penstock_cursor
WHERE group_id = :group_id AND topic_id = :topic_id AND partition = ANY(:partitions::integer[])
ORDER BY partition FOR UPDATE;

-- name: cursors_owned
-- The cursors a member owns, with their epochs and whom they are meant for, and whether the group is paused; walks the
-- primary keys, locks nothing.
SELECT c.partition, c.epoch, c.owner_wanted, g.paused_ms IS NOT NULL
FROM penstock_cursor c JOIN penstock_group g ON g.id = c.group_id
WHERE c.group_id = :group_id AND c.topic_id = :topic_id AND c.owner = :owner;

-- name: cursors_places
-- Where cursors stand, and what they have passed above; walks the primary key, locks nothing.
SELECT partition, "offset", passed FROM penstock_cursor
WHERE group_id = :group_id AND topic_id = :topic_id AND partition = ANY(:partitions::integer[])
ORDER BY partition;

-- name: cursors_release
-- Give cursors back; release is a change of owner, so the epoch rises. Walks the primary key, locks the rows in order.
-- As an array: the subquery of an IN may be run anew, locks and all, for each row of the table.
UPDATE penstock_cursor SET owner = NULL, epoch = epoch + 1
WHERE group_id = :group_id AND topic_id = :topic_id AND partition = ANY(ARRAY(
    SELECT partition FROM penstock_cursor
    WHERE group_id = :group_id AND topic_id = :topic_id AND owner = :owner
      AND partition = ANY(:partitions::integer[])
    ORDER BY partition FOR UPDATE));

-- name: cursors_reset
-- Set cursors, in a new epoch and version, so that nothing their owner still settles is written. One that lives has not
-- crashed, so it is no longer the owner; one that does not stays, and is counted by whoever takes over. What was tried
-- begins anew. Walks the primary key; the rows are locked already.
WITH w AS MATERIALIZED (SELECT t.partition, t.place FROM rows(:targets, partition integer, place bigint) AS t)
UPDATE penstock_cursor AS c
SET "offset" = w.place, passed = '', epoch = c.epoch + 1, version = c.version + 1, trying = NULL,
    crashes = least(c.crashes, 1),
    owner = CASE WHEN c.owner = ANY(:living::text[]) THEN NULL ELSE c.owner END
FROM w
WHERE c.group_id = :group_id AND c.topic_id = :topic_id AND c.partition = w.partition;

-- name: cursors_seize
-- Let cursors be taken afresh: the epoch rises, so that nothing their owner still settles is written. One that lives has
-- not crashed, so it is no longer the owner; one that does not stays, and is counted by whoever takes over. `anew`: the
-- record that was tried is to be tried from the beginning. Walks the primary key; the rows are locked already.
WITH w AS MATERIALIZED (SELECT s.partition, s.anew FROM rows(:seized, partition integer, anew boolean) AS s)
UPDATE penstock_cursor AS c
SET epoch = c.epoch + 1, owner = CASE WHEN c.owner = ANY(:living::text[]) THEN NULL ELSE c.owner END,
    trying = CASE WHEN w.anew THEN NULL ELSE c.trying END,
    crashes = CASE WHEN w.anew THEN least(c.crashes, 1) ELSE c.crashes END
FROM w
WHERE c.group_id = :group_id AND c.topic_id = :topic_id AND c.partition = w.partition;

-- name: cursors_take_wanted
-- Take the cursors that were meant for this member and that nobody in this list of living members owns. A new owner is a
-- new epoch; one that did not release is counted as a crash. Walks the primary key; locks in order, passing by what is
-- locked.
-- As an array: the subquery of an IN may be run anew, locks and all, for each row of the table.
UPDATE penstock_cursor
SET owner = :owner, epoch = epoch + 1, crashes = crashes + CASE WHEN owner IS NULL THEN 0 ELSE 1 END
WHERE group_id = :group_id AND topic_id = :topic_id AND partition = ANY(ARRAY(
    SELECT partition FROM penstock_cursor
    WHERE group_id = :group_id AND topic_id = :topic_id AND owner_wanted = :owner
      AND (owner IS NULL OR owner <> ALL(:living::text[]))
    ORDER BY partition FOR UPDATE SKIP LOCKED))
RETURNING partition, "offset", epoch, version, passed, crashes, trying;

-- == Dead letters: records that a group has given up

-- name: dead_find
-- One dead letter with all it holds; walks the primary key, locks nothing.
SELECT d.died_ms, d.group_id, d.topic_id, d.partition, d."offset", g.name, t.name, d.id, d.key, d.type, d.failures,
       d.reason, d.holding, d.reset_ms, d.value, d.headers, d.timestamp_ms
FROM penstock_dead d
JOIN penstock_group g ON g.id = d.group_id
JOIN penstock_topic t ON t.id = d.topic_id
WHERE d.group_id = :group_id AND d.topic_id = :topic_id AND d.partition = :partition AND d."offset" = :offset;

-- name: dead_headers
-- The headers of dead letters, by their places; walks the primary key, locks nothing. The cursors' locks are held already.
SELECT d.partition, d."offset", d.headers
FROM rows(:letters, partition integer, place bigint) AS w
CROSS JOIN penstock_dead d ON d.group_id = :group_id AND d.topic_id = :topic_id AND d.partition = w.partition
 AND d."offset" = w.place;

-- name: dead_list
-- A page of dead letters, the newest first, after a place in that order; walks ix_penstock_dead_died backwards, locks
-- nothing.
SELECT d.died_ms, d.group_id, d.topic_id, d.partition, d."offset", g.name, t.name, d.id, d.key, d.type, d.failures,
       d.reason, d.holding, d.reset_ms, d.timestamp_ms
FROM penstock_dead d
CROSS JOIN penstock_group g ON g.id = d.group_id
CROSS JOIN penstock_topic t ON t.id = d.topic_id
WHERE (d.died_ms, d.group_id, d.topic_id, d.partition, d."offset")
      < (:died_ms::bigint, :after_group::bigint, :after_topic::bigint, :after_partition::bigint, :after_offset::bigint)
  AND (:group_id::integer IS NULL OR d.group_id = :group_id::integer)
  AND (:topic_id::integer IS NULL OR d.topic_id = :topic_id::integer)
  AND (:id::text IS NULL OR d.id = :id::text)
  AND (:key::bytea IS NULL OR d.key = :key::bytea)
  AND (:type::text IS NULL OR d.type = :type::text)
  AND (:since_ms::bigint IS NULL OR d.died_ms >= :since_ms::bigint)
  AND (:before_ms::bigint IS NULL OR d.died_ms < :before_ms::bigint)
ORDER BY d.died_ms DESC, d.group_id DESC, d.topic_id DESC, d.partition DESC, d."offset" DESC
LIMIT :limit;

-- name: dead_peek
-- Dead letters by their places; walks the primary key, locks nothing. The cursors' locks are held already.
SELECT d.partition, d."offset", d.lane, d.holding
FROM rows(:letters, partition integer, place bigint) AS w
CROSS JOIN penstock_dead d ON d.group_id = :group_id AND d.topic_id = :topic_id AND d.partition = w.partition
 AND d."offset" = w.place;

-- name: dead_pick
-- The places of a group's dead letters, in the order of the log, after one of them; walks the primary key, locks nothing:
-- a hint, to be looked at again under the cursors' locks.
SELECT topic_id, partition, "offset", holding FROM penstock_dead
WHERE group_id = :group_id
  AND (topic_id, partition, "offset") > (:after_topic::bigint, :after_partition::bigint, :after_offset::bigint)
  AND (:topic_id::integer IS NULL OR topic_id = :topic_id::integer)
  AND (:id::text IS NULL OR id = :id::text)
  AND (:key::bytea IS NULL OR key = :key::bytea)
  AND (:type::text IS NULL OR type = :type::text)
  AND (:since_ms::bigint IS NULL OR died_ms >= :since_ms::bigint)
  AND (:before_ms::bigint IS NULL OR died_ms < :before_ms::bigint)
ORDER BY topic_id, partition, "offset"
LIMIT :limit;

-- name: dead_reset
-- Mark the dead letters of some partitions as older than a reset; those from an offset on hold their lanes no more. Walks
-- the primary key; locks those rows. The cursors' locks are held already.
WITH w AS MATERIALIZED (SELECT f.partition, f.place FROM rows(:floors, partition integer, place bigint) AS f)
UPDATE penstock_dead AS d
SET reset_ms = now_ms(:now_ms), holding = CASE WHEN d."offset" >= w.place THEN false ELSE d.holding END
FROM w
WHERE d.group_id = :group_id AND d.topic_id = :topic_id AND d.partition = w.partition;

-- == Entries: records that wait in lanes

-- name: entries_find
-- Which of some records wait in a lane; walks the primary key, locks nothing. The cursors' locks are held already.
SELECT e.partition, e."offset"
FROM rows(:entries, partition integer, place bigint) AS w
CROSS JOIN penstock_lane_entry e ON e.group_id = :group_id AND e.topic_id = :topic_id AND e.partition = w.partition
 AND e."offset" = w.place;

-- name: entries_load
-- The records of the waiting lanes of some partitions, and whether each has a copy; walks the primary key, locks nothing.
SELECT partition, lane, "offset", id IS NOT NULL FROM penstock_lane_entry
WHERE group_id = :group_id AND topic_id = :topic_id AND partition = ANY(:partitions::integer[])
ORDER BY "offset";

-- name: entries_put
-- Write down records of waiting lanes that the cursor passes; one that is there already only changes its lane. Walks the
-- primary key. The cursors' locks are held already.
INSERT INTO penstock_lane_entry (group_id, topic_id, partition, "offset", lane)
SELECT :group_id, :topic_id, e.partition, e.place, e.lane
FROM rows(:entries, partition integer, place bigint, lane text) AS e
WHERE true
ON CONFLICT (group_id, topic_id, partition, "offset") DO UPDATE SET lane = excluded.lane;

-- name: entries_return
-- Let dead letters wait in lanes again, each with the copy of its record: the log may have lost it by now. Walks the
-- primary keys. The cursors' locks are held already.
INSERT INTO penstock_lane_entry (group_id, topic_id, partition, "offset", lane,
                                 id, key, type, value, headers, timestamp_ms, owner)
SELECT d.group_id, d.topic_id, d.partition, d."offset", w.lane,
       d.id, d.key, d.type, d.value, d.headers, d.timestamp_ms, d.owner
FROM rows(:entries, partition integer, place bigint, lane text) AS w
CROSS JOIN penstock_dead d ON d.group_id = :group_id AND d.topic_id = :topic_id AND d.partition = w.partition
 AND d."offset" = w.place;

-- name: entry_headers
-- Give the copy of a waiting record other headers; walks the primary key, locks its row. The cursors' locks are held already.
UPDATE penstock_lane_entry SET headers = :headers::bytea
WHERE group_id = :group_id AND topic_id = :topic_id AND partition = :partition AND "offset" = :offset;

-- name: erase_find
-- Some places where records of an owner wait or lie as dead letters; walks ix_penstock_lane_entry_owner and
-- ix_penstock_dead_owner, locks nothing: a hint, looked at again under the cursors' locks.
SELECT * FROM (
    SELECT topic_id, partition, "offset", id FROM penstock_lane_entry WHERE owner = :owner LIMIT :limit) AS waiting
UNION
SELECT * FROM (
    SELECT topic_id, partition, "offset", id FROM penstock_dead WHERE owner = :owner LIMIT :limit) AS letters;

-- == Lanes that wait

-- name: lanes_held
-- Which of some lanes are held; walks the primary key, locks nothing. The cursors' locks are held already.
SELECT l.partition, l.lane
FROM rows(:lanes, partition integer, lane text) AS w
CROSS JOIN penstock_lane l ON l.group_id = :group_id AND l.topic_id = :topic_id AND l.partition = w.partition
 AND l.lane = w.lane
WHERE l.held;

-- name: lanes_load
-- The waiting lanes of some partitions; walks the primary key, locks nothing.
SELECT partition, lane, held, failures, due_ms, reason FROM penstock_lane
WHERE group_id = :group_id AND topic_id = :topic_id AND partition = ANY(:partitions::integer[]);

-- name: lanes_put
-- Write down lanes that wait; walks the primary key. The cursors' locks are held already.
INSERT INTO penstock_lane (group_id, topic_id, partition, lane, held, failures, due_ms, reason)
SELECT :group_id, :topic_id, l.partition, l.lane, l.held, l.failures, l.due_ms, l.reason
FROM rows(:lanes, partition integer, lane text, held boolean, failures integer, due_ms bigint, reason text) AS l
WHERE true
ON CONFLICT (group_id, topic_id, partition, lane)
DO UPDATE SET held = excluded.held, failures = excluded.failures, due_ms = excluded.due_ms, reason = excluded.reason;

-- == Groups

-- name: filter_keep
-- The version of a group's filter; walks the primary key, and locks the row against a change until the end.
SELECT filter_version FROM penstock_group WHERE id = :group_id FOR SHARE;

-- name: group_create
-- Make a group unless it is there; locks the name.
INSERT INTO penstock_group (name, created_ms) VALUES (:name, now_ms(:now_ms)) ON CONFLICT (name) DO NOTHING;

-- name: group_find
-- A group's id; walks the unique index on name, locks nothing.
SELECT id FROM penstock_group WHERE name = :name;

-- name: group_lock
-- Wait for the turn to take a group's cursors; locks its row, so that each taker sees what the one before it took. And the
-- filters of its handlers, the present one first, and since when it is paused.
SELECT id, filters, filter_version, paused_ms FROM penstock_group WHERE id = :group_id FOR UPDATE;

-- name: group_paused
-- Since when a group is given nothing; walks the primary key, locks nothing.
SELECT paused_ms FROM penstock_group WHERE id = :group_id;

-- name: group_seen
-- Note that groups have a member; locks the rows of those last seen before an hour, walks the unique index on name.
UPDATE penstock_group SET seen_ms = n.now_ms
FROM (SELECT now_ms(:now_ms) AS now_ms) AS n
WHERE name = ANY(:names::text[]) AND seen_ms < n.now_ms - 3600000;

-- == Measures

-- name: gauge_cursors
-- How far each group is behind the log, how many of its cursors one member owns, and how many nobody does who lives; reads the
-- cursors and walks the heads' primary key, locks nothing.
SELECT g.name, sum(greatest(0, h.next_offset - c."offset")), count(*) FILTER (WHERE c.owner = :owner),
       count(*) FILTER (WHERE c.owner IS NULL OR c.owner <> ALL(:living::text[]))
FROM penstock_group g
CROSS JOIN penstock_cursor c ON c.group_id = g.id
CROSS JOIN penstock_head h ON h.topic_id = c.topic_id AND h.partition = c.partition
GROUP BY g.name;

-- name: gauge_waiting
-- How many lanes of each group wait by themselves, how many for a person, and how many dead letters it has; reads the lanes and
-- walks the letters' primary key, locks nothing.
SELECT g.name,
       (SELECT count(*) FROM penstock_lane l WHERE l.group_id = g.id AND NOT l.held),
       (SELECT count(*) FROM penstock_lane l WHERE l.group_id = g.id AND l.held),
       (SELECT count(*) FROM penstock_dead d WHERE d.group_id = g.id)
FROM penstock_group g;

-- name: topics_unread
-- The topics that have records and no cursor of any group, and how many; reads the topics and, once, the cursors; walks the
-- heads' primary key, locks nothing.
SELECT t.name, sum(h.next_offset - h.start_offset)
FROM penstock_topic t
CROSS JOIN penstock_head h ON h.topic_id = t.id
WHERE t.id NOT IN (SELECT topic_id FROM penstock_cursor)
GROUP BY t.name
HAVING sum(h.next_offset - h.start_offset) > 0;
