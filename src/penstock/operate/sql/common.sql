-- The statements of this room for every engine, in the neutral SQL that log/sql/statements.py describes. Locks are for
-- engines with many writers: in SQLite a transaction that writes is the only one.

-- == Topics

-- name: erased_offsets
-- The erased records of a partition within bounds; walks the primary key, locks nothing.
SELECT "offset", id FROM penstock_log
WHERE topic_id = :topic_id AND partition = :partition AND "offset" >= :start AND "offset" < :end
  AND type = 'penstock.erased' ORDER BY "offset";

-- name: gaps
-- Records of a partition that are not followed by the next offset; walks the primary key, locks nothing.
SELECT "offset", following FROM (
    SELECT "offset", lead("offset") OVER (ORDER BY "offset") AS following FROM penstock_log
    WHERE topic_id = :topic_id AND partition = :partition AND "offset" >= :start AND "offset" < :end
) AS followed
WHERE following > "offset" + 1 ORDER BY "offset";

-- name: heads_of_topic
-- Where the partitions of a topic begin and end; walks the primary key, locks nothing.
SELECT partition, start_offset, next_offset FROM penstock_head WHERE topic_id = :topic_id;

-- name: heads_to_end
-- Let each partition of a topic begin where it ends; walks the primary key. The heads are locked already.
UPDATE penstock_head SET start_offset = next_offset WHERE topic_id = :topic_id;

-- name: ids_logged
-- The ids and keys of a partition's records within bounds, but for erased ones; walks the primary key, locks nothing.
SELECT id, key FROM penstock_log
WHERE topic_id = :topic_id AND partition = :partition AND "offset" >= :start AND "offset" < :end
  AND type <> 'penstock.erased';

-- name: offsets_at
-- The first offset of each partition with a timestamp at or after a moment, its end when there is none; from the last
-- sparse mark before it, walks the primary keys. Not what lies before its start: a topic that is being cleared.
SELECT h.partition, coalesce((
    SELECT l."offset" FROM penstock_log l
    WHERE l.topic_id = h.topic_id AND l.partition = h.partition AND l.timestamp_ms >= :at_ms
      AND l."offset" >= h.start_offset
      AND l."offset" >= coalesce((
            SELECT m."offset" FROM penstock_log_time m
            WHERE m.topic_id = h.topic_id AND m.partition = h.partition AND m.max_ms < :at_ms
            ORDER BY m."offset" DESC LIMIT 1), 0)
    ORDER BY l."offset" LIMIT 1), h.next_offset)
FROM penstock_head h WHERE h.topic_id = :topic_id;

-- name: topic_bytes
-- How many bytes the records of a topic have; walks the primary key over all of it.
SELECT coalesce(sum(coalesce(octet_length(key), 0) + coalesce(octet_length(value), 0) + coalesce(octet_length(headers), 0)), 0)
FROM penstock_log WHERE topic_id = :topic_id;

-- name: topic_counts
-- How much of a topic there is in each state; reads what is staged and scheduled, walks the heads' primary key.
SELECT (SELECT count(*) FROM penstock_staged WHERE topic = :topic),
       (SELECT count(*) FROM penstock_scheduled WHERE topic = :topic),
       (SELECT coalesce(sum(next_offset - start_offset), 0) FROM penstock_head WHERE topic_id = :topic_id),
       (SELECT count(*) FROM penstock_lane WHERE topic_id = :topic_id),
       (SELECT count(*) FROM penstock_dead WHERE topic_id = :topic_id);

-- name: topic_partitions
-- A page of a topic's partitions, after one of them; walks the primary key.
SELECT partition, start_offset, next_offset FROM penstock_head
WHERE topic_id = :topic_id AND partition > :after
ORDER BY partition
LIMIT :limit;

-- name: topic_records
-- How many offsets a topic keeps; walks the primary key.
SELECT coalesce(sum(next_offset - start_offset), 0) FROM penstock_head WHERE topic_id = :topic_id;

-- name: topic_retain
-- Say what is kept of a topic; what is not said stays, or with keep false becomes the default. Walks the primary key,
-- locks the row.
UPDATE penstock_topic
SET retention_ms = CASE WHEN :keep::boolean THEN coalesce(:retention_ms::bigint, retention_ms) END,
    retention_bytes = CASE WHEN :keep::boolean THEN coalesce(:max_bytes::bigint, retention_bytes) END,
    retention_records = CASE WHEN :keep::boolean THEN coalesce(:max_records::bigint, retention_records) END
WHERE id = :topic_id;

-- name: topic_show
-- A topic by name; walks the unique index on name, and the heads' primary key.
SELECT t.name, t.id, t.partitions, t.created_ms, t.retention_ms, t.retention_bytes, t.retention_records,
       coalesce((SELECT sum(h.next_offset - h.start_offset) FROM penstock_head h WHERE h.topic_id = t.id), 0)
FROM penstock_topic t
WHERE t.name = :name;

-- name: topic_unschedule
-- Take back what is scheduled for a topic; reads the table, and waits for callers who are cancelling some of it. Slots and
-- heads are locked already, so no move is under way.
DELETE FROM penstock_scheduled WHERE topic = :topic;

-- name: topic_unstage
-- Take back what is staged for a topic; reads the table. Slots and heads are locked already, so no move is under way.
DELETE FROM penstock_staged WHERE topic = :topic;

-- name: topics_groups
-- The groups that have cursors on some topics; reads the cursors.
SELECT DISTINCT c.topic_id, g.name FROM penstock_cursor c JOIN penstock_group g ON g.id = c.group_id
WHERE c.topic_id = ANY(:topics::integer[])
ORDER BY c.topic_id, g.name;

-- name: topics_list
-- A page of the topics, by name, after one of them; walks the unique index on name, and the heads' primary key.
SELECT t.name, t.id, t.partitions, t.created_ms, t.retention_ms, t.retention_bytes, t.retention_records,
       coalesce((SELECT sum(h.next_offset - h.start_offset) FROM penstock_head h WHERE h.topic_id = t.id), 0)
FROM penstock_topic t
WHERE t.name > :after
ORDER BY t.name
LIMIT :limit;

-- == Groups

-- name: cursors_below
-- The groups that have yet to come to an offset of a partition, and where they are; walks the primary key, locks nothing.
SELECT g.name, c."offset" FROM penstock_group g
CROSS JOIN penstock_cursor c ON c.group_id = g.id AND c.topic_id = :topic_id AND c.partition = :partition
WHERE c."offset" < :before
ORDER BY g.name;

-- name: cursors_of_group
-- Where a group is in each partition of a topic, with what it has passed and not settled, also before the
-- start of what is kept; walks the primary keys, locks nothing.
SELECT c.partition, c."offset", c.passed,
       (SELECT count(*) FROM penstock_lane_entry e
        WHERE e.group_id = c.group_id AND e.topic_id = c.topic_id AND e.partition = c.partition) AS held,
       (SELECT count(*) FROM penstock_dead d
        WHERE d.group_id = c.group_id AND d.topic_id = c.topic_id AND d.partition = c.partition) AS dead,
       (SELECT count(*) FROM penstock_lane_entry e
        WHERE e.group_id = c.group_id AND e.topic_id = c.topic_id AND e.partition = c.partition
          AND e."offset" < h.start_offset)
       + (SELECT count(*) FROM penstock_dead d
          WHERE d.group_id = c.group_id AND d.topic_id = c.topic_id AND d.partition = c.partition
            AND d."offset" < h.start_offset) AS before
FROM penstock_cursor c
JOIN penstock_head h ON h.topic_id = c.topic_id AND h.partition = c.partition
WHERE c.group_id = :group_id AND c.topic_id = :topic_id;

-- name: domain_delete
-- Remove what was said about sharing a group; walks the primary key. The row is locked already.
DELETE FROM penstock_domain WHERE name = :name;

-- name: group_cursors_delete
-- Remove the cursors of a group; walks the primary key, locks the rows.
DELETE FROM penstock_cursor WHERE group_id = :group_id;

-- name: group_dead
-- How many dead letters groups have; walks the primary key.
SELECT group_id, topic_id, count(*) FROM penstock_dead
WHERE group_id = ANY(:groups::integer[])
GROUP BY group_id, topic_id;

-- name: group_dead_delete
-- Remove the dead letters of a group; walks the primary key, locks the rows.
DELETE FROM penstock_dead WHERE group_id = :group_id;

-- name: group_delete
-- Remove a group's name; walks the primary key. The row is locked already.
DELETE FROM penstock_group WHERE id = :group_id;

-- name: group_entries_delete
-- Remove the lane entries of a group; walks the primary key, locks the rows.
DELETE FROM penstock_lane_entry WHERE group_id = :group_id;

-- name: group_filters
-- All groups with their filters; reads the table, which is small.
SELECT name, filters FROM penstock_group ORDER BY name;

-- name: group_lanes
-- How many lanes of groups wait by themselves, and how many for a person; walks the primary key.
SELECT group_id, topic_id, sum(CASE WHEN held THEN 0 ELSE 1 END), sum(CASE WHEN held THEN 1 ELSE 0 END)
FROM penstock_lane
WHERE group_id = ANY(:groups::integer[])
GROUP BY group_id, topic_id;

-- name: group_lanes_delete
-- Remove the waiting lanes of a group; walks the primary key, locks the rows.
DELETE FROM penstock_lane WHERE group_id = :group_id;

-- name: group_list
-- A page of the groups, by name, after one of them; walks the unique index on name.
SELECT name, id, created_ms, paused_ms, filter_version FROM penstock_group
WHERE name > :after
ORDER BY name
LIMIT :limit;

-- name: group_owners
-- Who owns partitions of a group; walks the primary key.
SELECT DISTINCT owner FROM penstock_cursor WHERE group_id = :group_id AND owner IS NOT NULL;

-- name: group_partitions
-- A page of a group's cursors, by topic and partition, after one of them; walks the primary keys, locks nothing.
SELECT c.topic_id, c.partition, t.name, c."offset", h.next_offset, c.passed, c.owner, c.owner_wanted, c.epoch, c.crashes
FROM penstock_cursor c
CROSS JOIN penstock_topic t ON t.id = c.topic_id
CROSS JOIN penstock_head h ON h.topic_id = c.topic_id AND h.partition = c.partition
WHERE c.group_id = :group_id
  AND (c.topic_id, c.partition) > (:after_topic::bigint, :after_partition::bigint)
  AND (:topic_id::integer IS NULL OR c.topic_id = :topic_id::integer)
ORDER BY c.topic_id, c.partition
LIMIT :limit;

-- name: group_passed
-- What groups have passed above their cursors; walks the primary key.
SELECT group_id, topic_id, passed FROM penstock_cursor
WHERE group_id = ANY(:groups::integer[]) AND passed <> '';

-- name: group_pause
-- Give a group nothing, unless it is so already; walks the primary key, locks the row.
UPDATE penstock_group SET paused_ms = now_ms(:now_ms)
WHERE id = :group_id AND paused_ms IS NULL;

-- name: group_progress
-- How far groups are on each of their topics, and when the oldest record they have not passed was published; walks the
-- primary keys, the log's once for each cursor.
SELECT c.group_id, c.topic_id, t.name, count(*), sum(greatest(0, h.next_offset - c."offset")),
       min(CASE WHEN h.next_offset > c."offset" THEN (
           SELECT l.timestamp_ms FROM penstock_log l
           WHERE l.topic_id = c.topic_id AND l.partition = c.partition AND l."offset" >= c."offset"
           ORDER BY l."offset" LIMIT 1) END)
FROM penstock_cursor c
JOIN penstock_topic t ON t.id = c.topic_id
JOIN penstock_head h ON h.topic_id = c.topic_id AND h.partition = c.partition
WHERE c.group_id = ANY(:groups::integer[])
GROUP BY c.group_id, c.topic_id, t.name
ORDER BY c.group_id, t.name;

-- name: group_resume
-- Let a paused group go on; walks the primary key, locks the row.
UPDATE penstock_group SET paused_ms = NULL WHERE id = :group_id AND paused_ms IS NOT NULL;

-- name: group_show
-- A group by name, with its filters; walks the unique index on name.
SELECT name, id, created_ms, paused_ms, filter_version, filters FROM penstock_group WHERE name = :name;

-- name: group_topics
-- The topics that a group has cursors on; walks the primary key.
SELECT DISTINCT topic_id FROM penstock_cursor WHERE group_id = :group_id;

-- name: groups_expired
-- The groups that were last seen too long ago to hold retention back, when that was, and how many records were deleted
-- that they had not passed; walks the cursors, locks nothing.
SELECT g.name, greatest(g.seen_ms, g.created_ms), sum(greatest(h.start_offset - c."offset", 0))::bigint
FROM penstock_group g
JOIN penstock_cursor c ON c.group_id = g.id
JOIN penstock_head h ON h.topic_id = c.topic_id AND h.partition = c.partition
WHERE greatest(g.seen_ms, g.created_ms) < now_ms(:now_ms) - :expires_ms
GROUP BY g.id, g.name, g.seen_ms, g.created_ms ORDER BY g.name;

-- name: groups_on_topic
-- The groups that have a cursor on a topic; walks the cursors, locks nothing.
SELECT DISTINCT g.id, g.name FROM penstock_cursor c JOIN penstock_group g ON g.id = c.group_id
WHERE c.topic_id = :topic_id ORDER BY g.name;

-- == Events

-- name: events_waiting
-- A page of the records that wait in lanes, by group, topic, partition and offset; walks the primary keys, locks nothing.
-- A record that retention has deleted from the log is read from its copy.
SELECT e.group_id, e.topic_id, e.partition, e."offset", t.name, coalesce(e.id, l.id), coalesce(e.key, l.key),
       coalesce(e.type, l.type), coalesce(e.timestamp_ms, l.timestamp_ms), g.name
FROM penstock_lane_entry e
CROSS JOIN penstock_group g ON g.id = e.group_id
CROSS JOIN penstock_topic t ON t.id = e.topic_id
LEFT JOIN penstock_log l ON e.id IS NULL AND l.topic_id = e.topic_id AND l.partition = e.partition AND l."offset" = e."offset"
WHERE (e.group_id, e.topic_id, e.partition, e."offset")
      > (:after_group::integer, :after_topic::integer, :after_partition::integer, :after_offset::bigint)
  AND (:topic_id::integer IS NULL OR e.topic_id = :topic_id::integer)
  AND (:group_id::integer IS NULL OR e.group_id = :group_id::integer)
  AND coalesce(e.id, l.id) IS NOT NULL
ORDER BY e.group_id, e.topic_id, e.partition, e."offset"
LIMIT :limit;

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

-- name: slots_lock
-- Hold all slots, so that nothing is moved; locks them in slot order, waiting for the moves under way. 256 rows.
SELECT slot FROM penstock_slot ORDER BY slot FOR UPDATE;

-- == The audit and what the store holds

-- name: audit_list
-- A page of the audit, the newest first, before one of its entries; walks the primary key backwards, locks nothing.
SELECT id, at_ms, actor, action, subject, count FROM penstock_audit
WHERE id < :before::bigint
  AND (:action::text IS NULL OR action = :action::text)
  AND (:actor::text IS NULL OR actor = :actor::text)
ORDER BY id DESC
LIMIT :limit;

-- name: audit_write
-- Note an action, in its own transaction; appends to the table, locks nothing.
INSERT INTO penstock_audit (at_ms, actor, action, subject, count)
VALUES (now_ms(:now_ms), :actor, :action, :subject, :count);

-- name: owner_counted
-- How much of an owner there is in each place; walks the indexes on owner, locks nothing.
SELECT (SELECT count(*) FROM penstock_staged WHERE owner = :owner),
       (SELECT count(*) FROM penstock_scheduled WHERE owner = :owner),
       (SELECT count(*) FROM penstock_log WHERE owner = :owner),
       (SELECT count(*) FROM penstock_lane_entry WHERE owner = :owner),
       (SELECT count(*) FROM penstock_dead WHERE owner = :owner);

-- name: rows_counted
-- How many records a partition holds within bounds, and of how many ids; walks the primary key, locks nothing.
SELECT count(*), count(DISTINCT id), min("offset"), max("offset") FROM penstock_log
WHERE topic_id = :topic_id AND partition = :partition AND "offset" >= :start AND "offset" < :end;

-- name: store_counts
-- How much a store holds; reads the tables, but for the log, of which it reads the heads.
SELECT (SELECT count(*) FROM penstock_topic),
       (SELECT coalesce(sum(next_offset - start_offset), 0) FROM penstock_head),
       (SELECT count(*) FROM penstock_staged),
       (SELECT count(*) FROM penstock_scheduled),
       (SELECT count(*) FROM penstock_group),
       (SELECT count(*) FROM penstock_dead);

-- == Why a record is where it is

-- name: why_audit
-- What persons did that bears on single records, the newest first, up to so much; walks the primary key backwards, locks nothing.
SELECT at_ms, actor, action, subject FROM penstock_audit
WHERE action = ANY(:actions::text[]) ORDER BY id DESC LIMIT :limit;

-- name: why_bounds
-- How many lanes and records wait in the partitions that a member has of a group; walks the
-- primary keys of these, locks nothing.
SELECT coalesce(sum(lanes), 0)::bigint, coalesce(sum(entries), 0)::bigint FROM (
    SELECT (SELECT count(*) FROM penstock_lane p
            WHERE p.group_id = c.group_id AND p.topic_id = c.topic_id AND p.partition = c.partition) AS lanes,
           (SELECT count(*) FROM penstock_lane_entry p
            WHERE p.group_id = c.group_id AND p.topic_id = c.topic_id AND p.partition = c.partition) AS entries
    FROM penstock_cursor c
    WHERE c.group_id = :group_id AND c.topic_id = :topic_id AND c.owner = :owner) AS counted;

-- name: why_dead_by_id
-- A record that some group gave up, by its id; reads the dead letters, locks nothing.
SELECT topic_id, partition, "offset", id, key, type, timestamp_ms FROM penstock_dead
WHERE id = :id AND (:topic_id::integer IS NULL OR topic_id = :topic_id::integer) LIMIT 1;

-- name: why_entry
-- The lane in which a record waits; walks the primary key, locks nothing.
SELECT lane FROM penstock_lane_entry
WHERE group_id = :group_id AND topic_id = :topic_id AND partition = :partition AND "offset" = :offset;

-- name: why_entry_by_id
-- A waiting record by its id, where retention has taken it from the log; reads the
-- waiting records of all groups, locks nothing.
SELECT topic_id, partition, "offset", id, key, type, timestamp_ms FROM penstock_lane_entry
WHERE id = :id AND (:topic_id::integer IS NULL OR topic_id = :topic_id::integer) LIMIT 1;

-- name: why_group
-- A group by its name; walks the unique index on name, locks nothing.
SELECT id, name, created_ms, filters, paused_ms, seen_ms FROM penstock_group WHERE name = :name;

-- name: why_group_lanes
-- What waits in the lanes of a group on a topic: held, resting until later and the first of these, and due; walks the
-- primary key, locks nothing.
SELECT partition, count(CASE WHEN held THEN 1 END), count(CASE WHEN NOT held AND due_ms > :now_ms THEN 1 END),
       min(CASE WHEN NOT held AND due_ms > :now_ms THEN due_ms END),
       count(CASE WHEN NOT held AND due_ms <= :now_ms THEN 1 END)
FROM penstock_lane WHERE group_id = :group_id AND topic_id = :topic_id GROUP BY partition;

-- name: why_group_places
-- Where a group is in each partition that it reads, and where that ends; walks the primary keys, locks nothing.
SELECT c.topic_id, t.name, c.partition, c."offset", c.passed, c.owner, c.crashes, c.trying, h.next_offset
FROM penstock_cursor c
JOIN penstock_topic t ON t.id = c.topic_id
JOIN penstock_head h ON h.topic_id = c.topic_id AND h.partition = c.partition
WHERE c.group_id = :group_id AND (:topic_id::integer IS NULL OR c.topic_id = :topic_id::integer)
ORDER BY t.name, c.partition;

-- name: why_lane_head
-- The first record that waits in a lane; walks the primary key of the partition, locks nothing.
SELECT "offset" FROM penstock_lane_entry
WHERE group_id = :group_id AND topic_id = :topic_id AND partition = :partition AND lane = :lane
ORDER BY "offset" LIMIT 1;

-- name: why_letters
-- The dead letters of a partition that have an offset, hold a lane, or are of a key, the oldest offset first; walks the
-- primary key, locks nothing.
SELECT "offset", id, failures, reason, died_ms, holding, lane FROM penstock_dead
WHERE group_id = :group_id AND topic_id = :topic_id AND partition = :partition
  AND ("offset" = :offset::bigint OR (holding AND lane = :lane::text) OR key = :key::bytea)
ORDER BY "offset";

-- name: why_log_at
-- The record at an offset, without what it holds; walks the primary key, locks nothing.
SELECT partition, "offset", id, key, type, timestamp_ms FROM penstock_log
WHERE topic_id = :topic_id AND partition = :partition AND "offset" = :offset;

-- name: why_log_by_key
-- The records of a key within a range of offsets of a partition, in order; walks the primary key, locks nothing.
SELECT partition, "offset", id, key, type, timestamp_ms FROM penstock_log
WHERE topic_id = :topic_id AND partition = :partition AND "offset" >= :start AND "offset" < :end AND key = :key
ORDER BY "offset" LIMIT :limit;

-- name: why_log_last_of_key
-- The last record of a key within a range of offsets of a partition; walks the primary key backwards, locks nothing.
SELECT partition, "offset", id, key, type, timestamp_ms FROM penstock_log
WHERE topic_id = :topic_id AND partition = :partition AND "offset" >= :start AND "offset" < :end AND key = :key
ORDER BY "offset" DESC LIMIT 1;

-- name: why_scheduled_by_id
-- An event for the future by its id; walks ix_penstock_scheduled_id, locks nothing.
SELECT topic, id, key, type, timestamp_ms, slot, due_ms FROM penstock_scheduled
WHERE id = :id AND (:topic::text IS NULL OR topic = :topic::text) ORDER BY seq LIMIT 1;

-- name: why_scheduled_by_key
-- The next event of a key for the future; walks ix_penstock_scheduled_key, locks nothing.
SELECT topic, id, key, type, timestamp_ms, slot, due_ms FROM penstock_scheduled
WHERE key_hash = :key_hash AND key IS NOT NULL AND key = :key AND (:topic::text IS NULL OR topic = :topic::text)
ORDER BY due_ms, seq LIMIT 1;

-- name: why_slot
-- Who owns a slot; walks the primary key, locks nothing.
SELECT owner FROM penstock_slot WHERE slot = :slot;

-- name: why_staged_by_id
-- A staged event by its id; reads the table up to so many rows, since it has no index on ids, locks nothing.
SELECT topic, id, key, type, timestamp_ms, slot, NULL::bigint FROM (
    SELECT topic, id, key, type, timestamp_ms, slot FROM penstock_staged LIMIT :walk) AS s
WHERE id = :id AND (:topic::text IS NULL OR topic = :topic::text) LIMIT 1;

-- name: why_staged_count
-- How many events are staged, up to so many; reads the table so far, locks nothing.
SELECT count(*) FROM (SELECT 1 FROM penstock_staged LIMIT :walk) AS s;

-- name: why_starts
-- Where to look for a record of some moment in each partition of a topic: its bounds, the last sparse mark before
-- it, and the time of the first record kept where some are gone; walks the primary keys, locks nothing.
SELECT h.partition, h.start_offset, h.next_offset,
       (SELECT t."offset" FROM penstock_log_time t
        WHERE t.topic_id = h.topic_id AND t.partition = h.partition AND t.max_ms < :time_ms::bigint
        ORDER BY t."offset" DESC LIMIT 1) AS mark,
       CASE WHEN h.start_offset > 0 THEN
           (SELECT l.timestamp_ms FROM penstock_log l
            WHERE l.topic_id = h.topic_id AND l.partition = h.partition ORDER BY l."offset" LIMIT 1) END AS first_ms
FROM penstock_head h WHERE h.topic_id = :topic_id AND h.next_offset > 0 ORDER BY h.partition;
