-- The statements of this room for every engine, in the neutral SQL that database/statements.py describes. Those on the
-- tables of other rooms only read, and lock nothing: writes are in the rooms that own the tables.

-- == The audit

-- name: audit_list
-- A page of the audit, newest first, before a given entry; walks the primary key backwards, locks nothing.
SELECT id, at_ms, actor, action, subject, count FROM penstock_audit
WHERE id < :before::bigint
  AND (:action::text IS NULL OR action = :action::text)
  AND (:actor::text IS NULL OR actor = :actor::text)
  AND (:since_ms::bigint IS NULL OR at_ms >= :since_ms::bigint)
  AND (:before_ms::bigint IS NULL OR at_ms < :before_ms::bigint)
ORDER BY id DESC
LIMIT :limit;

-- name: audit_write
-- Record an action in its own transaction; appends to the table, locks nothing.
INSERT INTO penstock_audit (at_ms, actor, action, subject, count)
VALUES (now_ms(:now_ms), :actor, :action, :subject, :count);

-- == Schemas of values

-- name: value_schemas
-- All schemas, or those of a topic, without their descriptors; walks the primary key, locks nothing.
SELECT topic, type, message, added_by, added_ms FROM penstock_value_schema
WHERE :topic::text IS NULL OR topic = :topic::text
ORDER BY topic, type;

-- name: value_schema_of
-- The schema of a type of a topic, then the schema for all its types; walks the primary key, locks nothing.
SELECT message, descriptors FROM penstock_value_schema
WHERE topic = :topic AND (type = :type OR type = '')
ORDER BY type DESC;

-- name: value_schema_add
-- Add a schema, after value_schema_remove; locks its row.
INSERT INTO penstock_value_schema (topic, type, message, descriptors, added_by, added_ms)
VALUES (:topic, :type, :message, :descriptors, :added_by, now_ms(:now_ms));

-- name: value_schema_remove
-- Remove a schema; walks the primary key, locks its row.
DELETE FROM penstock_value_schema WHERE topic = :topic AND type = :type;

-- == Why a record is where it is

-- name: why_audit
-- The latest audit entries about single records, newest first; walks the primary key backwards, locks nothing.
SELECT at_ms, actor, action, subject FROM penstock_audit
WHERE action = ANY(:actions::text[]) ORDER BY id DESC LIMIT :limit;

-- name: open_lockers
-- Other clients' open transactions with locks on our tables: an engine with one writer has no list of them and returns no rows.
SELECT NULL, '', '', NULL, NULL, NULL WHERE 1 = 0;

-- == Groups and their cursors

-- name: groups_all
-- All groups by name, or the one of a name; reads the table, which is small, locks nothing.
SELECT id, name, created_ms, filters, paused_ms, seen_ms FROM penstock_group
WHERE :name::text IS NULL OR name = :name::text ORDER BY name;

-- name: group_show
-- A group by name, with its filters; walks the unique index on name.
SELECT name, id, created_ms, paused_ms, filter_version, kind, filters FROM penstock_group WHERE name = :name;

-- name: group_list
-- A page of the groups, by name, after one of them; walks the unique index on name.
SELECT name, id, created_ms, paused_ms, filter_version, kind FROM penstock_group
WHERE name > :after
ORDER BY name
LIMIT :limit;

-- name: group_filters
-- All groups with their filters; reads the table, which is small.
SELECT name, filters FROM penstock_group WHERE kind = 'handler' ORDER BY name;

-- name: group_owners
-- The owners of partitions of a group; walks the primary key.
SELECT DISTINCT owner FROM penstock_cursor WHERE group_id = :group_id AND owner IS NOT NULL;

-- name: group_passed
-- The offsets that groups have passed above their cursors; walks the primary key.
SELECT group_id, topic_id, passed FROM penstock_cursor
WHERE group_id = ANY(:groups::integer[]) AND passed <> '';

-- name: group_partitions
-- A page of a group's cursors, by topic and partition, after one of them; walks the primary key, locks nothing.
SELECT topic_id, partition, "offset", passed, owner, owner_wanted, epoch, crashes
FROM penstock_cursor
WHERE group_id = :group_id
  AND (topic_id, partition) > (:after_topic::bigint, :after_partition::bigint)
  AND (:topic_id::integer IS NULL OR topic_id = :topic_id::integer)
  AND topic_id <> ALL(:hidden::integer[])
ORDER BY topic_id, partition
LIMIT :limit;

-- name: group_places
-- The positions of groups in every partition that they read; walks the primary key, locks nothing.
SELECT group_id, topic_id, partition, "offset" FROM penstock_cursor
WHERE group_id = ANY(:groups::integer[])
ORDER BY group_id, topic_id, partition;

-- name: group_cursors
-- The position of a group in each partition that it reads; walks the primary key, locks nothing.
SELECT topic_id, partition, "offset", passed, owner, crashes, trial
FROM penstock_cursor
WHERE group_id = :group_id AND (:topic_id::integer IS NULL OR topic_id = :topic_id::integer)
ORDER BY topic_id, partition;

-- name: group_lanes
-- How many lanes of groups wait by themselves, and how many for a person; walks the primary key.
SELECT group_id, topic_id, sum(CASE WHEN state = 'held' THEN 0 ELSE 1 END),
       sum(CASE WHEN state = 'held' THEN 1 ELSE 0 END)
FROM penstock_lane
WHERE group_id = ANY(:groups::integer[])
GROUP BY group_id, topic_id;

-- name: group_dead
-- How many dead letters groups have; walks the primary key.
SELECT group_id, topic_id, count(*) FROM penstock_dead
WHERE group_id = ANY(:groups::integer[])
GROUP BY group_id, topic_id;

-- name: groups_on_topic
-- The groups that have a cursor on a topic; walks the cursors, locks nothing.
SELECT DISTINCT g.id, g.name FROM penstock_cursor c JOIN penstock_group g ON g.id = c.group_id
WHERE c.topic_id = :topic_id ORDER BY g.name;

-- name: groups_on_partition
-- The groups on a partition and their positions; walks the groups, and the primary key of cursors for each, locks nothing.
SELECT g.id, g.name, g.created_ms, g.filters, g.paused_ms, g.seen_ms,
       c."offset", c.passed, c.owner, c.crashes, c.trial
FROM penstock_group g
CROSS JOIN penstock_cursor c ON c.group_id = g.id AND c.topic_id = :topic_id AND c.partition = :partition
WHERE :group_id::integer IS NULL OR g.id = :group_id::integer
ORDER BY g.name;

-- name: topics_groups
-- The groups that have cursors on some topics; reads the groups and, for each of them and each topic, walks the primary key of
-- the cursors to the first. Locks nothing.
SELECT w.topic_id, g.name
FROM rows(:topics, topic_id integer) AS w
CROSS JOIN penstock_group g
WHERE (SELECT c.partition FROM penstock_cursor c
       WHERE c.group_id = g.id AND c.topic_id = w.topic_id LIMIT 1) IS NOT NULL
ORDER BY w.topic_id, g.name;

-- name: groups_expired
-- The groups that were last seen too long ago to hold retention back, when that was, and their positions; walks the
-- cursors, locks nothing.
SELECT g.name, greatest(g.seen_ms, g.created_ms), c.topic_id, c.partition, c."offset"
FROM penstock_group g
JOIN penstock_cursor c ON c.group_id = g.id
WHERE g.holds AND greatest(g.seen_ms, g.created_ms) < now_ms(:now_ms) - :expires_ms
ORDER BY g.name;

-- name: cursors_below
-- The groups that have yet to reach an offset of a partition, and their positions; walks the primary key, locks nothing.
SELECT g.name, c."offset" FROM penstock_group g
CROSS JOIN penstock_cursor c ON c.group_id = g.id AND c.topic_id = :topic_id AND c.partition = :partition
WHERE c."offset" < :before
ORDER BY g.name;

-- name: cursors_of_group
-- The position of a group in each partition of a topic, with the offsets it has passed and not settled, also before the
-- starts of the kept records; walks the primary keys, locks nothing.
SELECT c.partition, c."offset", c.passed,
       (SELECT count(*) FROM penstock_lane_entry e
        WHERE e.group_id = c.group_id AND e.topic_id = c.topic_id AND e.partition = c.partition) AS held,
       (SELECT count(*) FROM penstock_dead d
        WHERE d.group_id = c.group_id AND d.topic_id = c.topic_id AND d.partition = c.partition) AS dead,
       (SELECT count(*) FROM penstock_lane_entry e
        WHERE e.group_id = c.group_id AND e.topic_id = c.topic_id AND e.partition = c.partition
          AND e."offset" < h.place)
       + (SELECT count(*) FROM penstock_dead d
          WHERE d.group_id = c.group_id AND d.topic_id = c.topic_id AND d.partition = c.partition
            AND d."offset" < h.place) AS before
FROM rows(:starts, partition integer, place bigint) AS h
CROSS JOIN penstock_cursor c ON c.group_id = :group_id AND c.topic_id = :topic_id AND c.partition = h.partition;

-- name: cursors_holding
-- The positions of the groups that retention waits for in each partition of a topic; reads the groups and, for each, walks
-- the primary key of cursors, locks nothing.
SELECT g.name, c.partition, c."offset"
FROM penstock_group g
JOIN penstock_cursor c ON c.group_id = g.id AND c.topic_id = :topic_id
WHERE g.holds AND greatest(g.seen_ms, g.created_ms) >= :seen_since
ORDER BY g.name, c.partition;

-- name: cursors_highest
-- The position of the foremost group in each partition of a topic; walks the cursors, locks nothing.
SELECT partition, max("offset") FROM penstock_cursor WHERE topic_id = :topic_id GROUP BY partition;

-- name: cursors_lowest
-- The lowest cursor of all groups in each partition of a topic; walks the groups and, for each, the primary key, locks
-- nothing.
SELECT c.partition, min(c."offset")
FROM penstock_group g
CROSS JOIN penstock_cursor c ON c.group_id = g.id AND c.topic_id = :topic_id
GROUP BY c.partition;

-- name: waiting_counts
-- How many lanes and records wait in the partitions that some members own of some groups; walks their primary keys, locks
-- nothing.
SELECT group_id, owner, sum(lanes)::bigint, sum(entries)::bigint FROM (
    SELECT c.group_id, c.owner,
           (SELECT count(*) FROM penstock_lane p
            WHERE p.group_id = c.group_id AND p.topic_id = c.topic_id AND p.partition = c.partition) AS lanes,
           (SELECT count(*) FROM penstock_lane_entry p
            WHERE p.group_id = c.group_id AND p.topic_id = c.topic_id AND p.partition = c.partition) AS entries
    FROM penstock_cursor c
    WHERE c.group_id = ANY(:groups::integer[]) AND c.topic_id = :topic_id AND c.owner = ANY(:owners::text[])) AS counted
GROUP BY group_id, owner;

-- == Lanes that wait, and the records in them

-- name: lanes_list
-- A page of waiting lanes, by group, topic, partition and lane, after one of them; with `lane` those of one key, also where
-- a record of it is retried alone. Walks the primary key, locks nothing.
SELECT l.group_id, l.topic_id, l.partition, l.lane, l.whole, l.late, l.alone, g.name, l.state, l.failures, l.due_ms, l.reason
FROM penstock_lane l
CROSS JOIN penstock_group g ON g.id = l.group_id
WHERE (l.group_id, l.topic_id, l.partition, l.lane, l.whole, l.late, l.alone)
      > (:after_group::bigint, :after_topic::bigint, :after_partition::bigint, :after_lane::text, :after_whole::boolean,
         :after_late::boolean, :after_alone::bigint)
  AND (:group_id::integer IS NULL OR l.group_id = :group_id::integer)
  AND (:topic_id::integer IS NULL OR l.topic_id = :topic_id::integer)
  AND (:held::boolean IS NULL OR (l.state = 'held') = :held::boolean)
  AND (:lane::text IS NULL OR (l.lane = :lane::text AND NOT l.whole))
  AND l.topic_id <> ALL(:hidden::integer[])
ORDER BY l.group_id, l.topic_id, l.partition, l.lane, l.whole, l.late, l.alone
LIMIT :limit;

-- name: lanes_by_partition
-- The waiting lanes of a group on a topic: held, resting until later and the first due time of these, due, and behind
-- another partition; and whether the partition itself is a lane that is held or rests, so that nothing else goes on. Walks
-- the primary key, locks nothing.
SELECT partition, count(CASE WHEN state = 'held' THEN 1 END),
       count(CASE WHEN state <> 'held' AND due_ms > :now_ms THEN 1 END),
       min(CASE WHEN state <> 'held' AND due_ms > :now_ms THEN due_ms END),
       count(CASE WHEN state NOT IN ('held', 'moved') AND due_ms <= :now_ms THEN 1 END),
       count(CASE WHEN state = 'moved' THEN 1 END),
       count(CASE WHEN whole AND NOT late AND alone = -1 AND (state = 'held' OR due_ms > :now_ms) THEN 1 END)
FROM penstock_lane WHERE group_id = :group_id AND topic_id = :topic_id GROUP BY partition;

-- name: lanes_of_key
-- The lanes of a key in a partition, or of the whole partition: its own, the late one, and those of records that are retried
-- alone, of several groups; walks the primary key, locks nothing.
SELECT group_id, lane, whole, late, alone, state, failures, due_ms, reason FROM penstock_lane
WHERE group_id = ANY(:groups::integer[]) AND topic_id = :topic_id AND partition = :partition
  AND lane = :lane AND whole = :whole::boolean
ORDER BY late, alone;

-- name: lane_extents
-- The first and the last record that wait in each lane of a key, and how many do, of several groups; walks the primary key
-- of the partition, locks nothing.
SELECT group_id, lane, whole, late, alone, min("offset"), max("offset"), count(*) FROM penstock_lane_entry
WHERE group_id = ANY(:groups::integer[]) AND topic_id = :topic_id AND partition = :partition
  AND lane = :lane AND whole = :whole::boolean
GROUP BY group_id, lane, whole, late, alone;

-- name: entry_lane
-- The lanes in which records at some offsets wait, of several groups; walks the primary key, locks nothing.
SELECT group_id, "offset", lane, whole, late, alone FROM penstock_lane_entry
WHERE group_id = ANY(:groups::integer[]) AND topic_id = :topic_id AND partition = :partition
  AND "offset" = ANY(:offsets::bigint[]);

-- name: places_of_key
-- The partitions where some group has a lane of a key, or of a record of it that is retried alone, or a dead letter of it;
-- reads the lanes and the dead letters of all groups, locks nothing.
SELECT topic_id, partition FROM penstock_lane WHERE lane = :lane::text AND NOT whole
UNION
SELECT topic_id, partition FROM penstock_dead WHERE key = :key::bytea OR (holding AND lane = :lane::text AND NOT whole);

-- name: entries_page
-- A page of the records that wait in lanes, by group, topic, partition and offset, with the content of their copies; walks
-- the primary key, locks nothing.
SELECT e.group_id, e.topic_id, e.partition, e."offset", g.name, e.id, e.key, nullif(e.type, ''), e.timestamp_ms
FROM penstock_lane_entry e
CROSS JOIN penstock_group g ON g.id = e.group_id
WHERE (e.group_id, e.topic_id, e.partition, e."offset")
      > (:after_group::integer, :after_topic::integer, :after_partition::integer, :after_offset::bigint)
  AND (:topic_id::integer IS NULL OR e.topic_id = :topic_id::integer)
  AND (:group_id::integer IS NULL OR e.group_id = :group_id::integer)
ORDER BY e.group_id, e.topic_id, e.partition, e."offset"
LIMIT :limit;

-- name: unfinished
-- The records of a range that wait or are dead letters in some group; walks the groups and, for each, the primary keys,
-- locks nothing.
SELECT e."offset" FROM penstock_group g
CROSS JOIN penstock_lane_entry e ON e.group_id = g.id AND e.topic_id = :topic_id AND e.partition = :partition
WHERE e."offset" >= :low AND e."offset" < :high
UNION
SELECT d."offset" FROM penstock_group g
CROSS JOIN penstock_dead d ON d.group_id = g.id AND d.topic_id = :topic_id AND d.partition = :partition
WHERE d."offset" >= :low AND d."offset" < :high;

-- name: kept_records
-- The copies of a record, by its id, that lanes and dead letters hold; reads the waiting records and the dead letters of all
-- groups, locks nothing.
SELECT topic_id, partition, "offset", id, key, type, timestamp_ms, value, headers, owner FROM penstock_lane_entry
WHERE id = :id AND (:topic_id::integer IS NULL OR topic_id = :topic_id::integer)
UNION ALL
SELECT topic_id, partition, "offset", id, key, type, timestamp_ms, value, headers, owner FROM penstock_dead
WHERE id = :id AND (:topic_id::integer IS NULL OR topic_id = :topic_id::integer);

-- == Dead letters

-- name: dead_list
-- A page of dead letters, the newest first, after a place in that order; walks ix_penstock_dead_died backwards, locks
-- nothing.
SELECT d.died_ms, d.group_id, d.topic_id, d.partition, d."offset", g.name, d.id, d.key, d.type, d.failures,
       d.reason, d.holding, d.reset_ms, d.timestamp_ms
FROM penstock_dead d
CROSS JOIN penstock_group g ON g.id = d.group_id
WHERE (d.died_ms, d.group_id, d.topic_id, d.partition, d."offset")
      < (:died_ms::bigint, :after_group::bigint, :after_topic::bigint, :after_partition::bigint, :after_offset::bigint)
  AND (:group_id::integer IS NULL OR d.group_id = :group_id::integer)
  AND (:topic_id::integer IS NULL OR d.topic_id = :topic_id::integer)
  AND (:id::text IS NULL OR d.id = :id::text)
  AND (:key::bytea IS NULL OR d.key = :key::bytea)
  AND (:type::text IS NULL OR d.type = :type::text)
  AND (:error::text IS NULL OR substr(d.reason, 1, length(:error::text)) = :error::text)
  AND (:since_ms::bigint IS NULL OR d.died_ms >= :since_ms::bigint)
  AND (:before_ms::bigint IS NULL OR d.died_ms < :before_ms::bigint)
  AND d.topic_id <> ALL(:hidden::integer[])
ORDER BY d.died_ms DESC, d.group_id DESC, d.topic_id DESC, d.partition DESC, d."offset" DESC
LIMIT :limit;

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
  AND (:error::text IS NULL OR substr(reason, 1, length(:error::text)) = :error::text)
  AND (:since_ms::bigint IS NULL OR died_ms >= :since_ms::bigint)
  AND (:before_ms::bigint IS NULL OR died_ms < :before_ms::bigint)
ORDER BY topic_id, partition, "offset"
LIMIT :limit;

-- name: dead_find
-- One dead letter with all its content; walks the primary key, locks nothing.
SELECT d.died_ms, d.group_id, d.topic_id, d.partition, d."offset", g.name, d.id, d.key, d.type, d.failures,
       d.reason, d.holding, d.reset_ms, d.value, d.headers, d.timestamp_ms
FROM penstock_dead d
JOIN penstock_group g ON g.id = d.group_id
WHERE d.group_id = :group_id AND d.topic_id = :topic_id AND d.partition = :partition AND d."offset" = :offset;

-- name: dead_of_lane
-- The dead letters of a partition that hold a lane, or are of a key, of several groups, the oldest offset first; walks the
-- primary key, locks nothing.
SELECT group_id, "offset", id, failures, reason, died_ms, holding, lane, whole, late, alone FROM penstock_dead
WHERE group_id = ANY(:groups::integer[]) AND topic_id = :topic_id AND partition = :partition
  AND ((holding AND lane = :lane::text AND whole = :whole::boolean AND late = :late::boolean) OR key = :key::bytea)
ORDER BY "offset";

-- name: dead_at
-- The dead letters at some offsets, of several groups; walks the primary key, locks nothing.
SELECT group_id, "offset", id, failures, reason, died_ms, holding, lane, whole, late, alone FROM penstock_dead
WHERE group_id = ANY(:groups::integer[]) AND topic_id = :topic_id AND partition = :partition
  AND "offset" = ANY(:offsets::bigint[]);

-- == Records that were passed over, or completed by a fallback

-- name: notes_of_group
-- All notes of a group; walks the primary key, locks nothing.
SELECT topic_id, partition, type, until_offset, first_offset, end_offset, records, holes, wanted_ms, again FROM penstock_note
WHERE group_id = :group_id
ORDER BY topic_id, type, partition, until_offset
LIMIT :limit;

-- name: notes_of_type
-- The notes of some types in a partition, of several groups; walks the primary key, locks nothing.
SELECT group_id, type, partition, type, until_offset, first_offset, end_offset, records, holes, wanted_ms, again
FROM penstock_note
WHERE group_id = ANY(:groups::integer[]) AND topic_id = :topic_id AND partition = :partition
  AND type = ANY(:types::text[])
ORDER BY until_offset;

-- name: fallbacks_list
-- A page of the records that only a fallback completed, by group, topic, partition and offset, after one of them; walks the
-- primary key, locks nothing.
SELECT f.group_id, f.topic_id, f.partition, f."offset", g.name, f.failures, f.reason, f.completed_ms
FROM penstock_fallback f
CROSS JOIN penstock_group g ON g.id = f.group_id
WHERE (f.group_id, f.topic_id, f.partition, f."offset")
      > (:after_group::bigint, :after_topic::bigint, :after_partition::bigint, :after_offset::bigint)
  AND (:group_id::integer IS NULL OR f.group_id = :group_id::integer)
  AND (:topic_id::integer IS NULL OR f.topic_id = :topic_id::integer)
ORDER BY f.group_id, f.topic_id, f.partition, f."offset"
LIMIT :limit;

-- name: fallback_find
-- How a fallback completed records at some offsets, for several groups; walks the primary key, locks nothing.
SELECT group_id, "offset", failures, reason, completed_ms FROM penstock_fallback
WHERE group_id = ANY(:groups::integer[]) AND topic_id = :topic_id AND partition = :partition
  AND "offset" = ANY(:offsets::bigint[]);

-- == Events that are not in the log yet

-- name: staged_by_id
-- A staged event by its id; reads the table up to a limit of rows, since it has no index on ids, locks nothing.
SELECT topic, id, key, type, timestamp_ms, slot, NULL::bigint FROM (
    SELECT topic, id, key, type, timestamp_ms, slot FROM penstock_staged LIMIT :walk) AS s
WHERE id = :id AND (:topic::text IS NULL OR topic = :topic::text) LIMIT 1;

-- name: staged_show
-- All columns of a staged event; reads the table up to a limit of rows, since it has no index on ids, locks nothing.
SELECT owner, type, id, value, headers, timestamp_ms FROM (
    SELECT owner, type, id, value, headers, timestamp_ms FROM penstock_staged LIMIT :walk) AS s
WHERE id = :id LIMIT 1;

-- name: staged_count
-- The number of staged events, up to a limit; reads the table up to the limit, locks nothing.
SELECT count(*) FROM (SELECT 1 FROM penstock_staged LIMIT :walk) AS s;

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
  AND topic <> ALL(:hidden::text[])
ORDER BY due_ms, seq
LIMIT :limit;

-- name: scheduled_show
-- All columns of a scheduled event; walks ix_penstock_scheduled_id, locks nothing.
SELECT due_ms, seq, topic, key, owner, type, id, slot, value, headers, timestamp_ms FROM penstock_scheduled
WHERE id = :id
ORDER BY seq LIMIT 1;

-- name: scheduled_by_id
-- A scheduled event by its id; walks ix_penstock_scheduled_id, locks nothing.
SELECT topic, id, key, type, timestamp_ms, slot, due_ms FROM penstock_scheduled
WHERE id = :id AND (:topic::text IS NULL OR topic = :topic::text) ORDER BY seq LIMIT 1;

-- name: scheduled_by_key
-- The next scheduled event of a key; walks ix_penstock_scheduled_key, locks nothing.
SELECT topic, id, key, type, timestamp_ms, slot, due_ms FROM penstock_scheduled
WHERE key_hash = :key_hash AND key IS NOT NULL AND key = :key AND (:topic::text IS NULL OR topic = :topic::text)
ORDER BY due_ms, seq LIMIT 1;

-- name: scheduled_count
-- The number of matching scheduled events; reads the table or one of its indexes, locks nothing.
SELECT count(*) FROM penstock_scheduled
WHERE (:id::text IS NULL OR id = :id::text)
  AND (:topic::text IS NULL OR topic = :topic::text)
  AND (:key_hash::integer IS NULL OR key_hash = :key_hash::integer)
  AND (:key::bytea IS NULL OR key = :key::bytea)
  AND (:owner::text IS NULL OR owner = :owner::text)
  AND (:before_ms::bigint IS NULL OR due_ms < :before_ms::bigint);

-- name: unlogged_of_key
-- The number of events of a key that are staged, up to a limit of its slot's rows, and scheduled; reads the staged events of
-- the slot and walks ix_penstock_scheduled_key, locks nothing.
SELECT (SELECT count(*) FROM (SELECT topic, key_hash, key FROM penstock_staged WHERE slot = :slot LIMIT :walk) AS s
        WHERE s.key_hash = :key_hash AND s.key = :key AND (:topic::text IS NULL OR s.topic = :topic::text)),
       (SELECT count(*) FROM penstock_scheduled
        WHERE key_hash = :key_hash AND key IS NOT NULL AND key = :key AND (:topic::text IS NULL OR topic = :topic::text));

-- name: ready_by_slot
-- The events of a topic, or of all, that are staged or due: their number in each slot, and the oldest time; reads the staged
-- events, and the due ones by ix_penstock_scheduled_due, locks nothing.
SELECT slot, sum(events)::bigint, min(since_ms) FROM (
    SELECT slot, count(*) AS events, min(timestamp_ms) AS since_ms FROM penstock_staged
    WHERE :topic::text IS NULL OR topic = :topic::text GROUP BY slot
    UNION ALL
    SELECT slot, count(*), min(due_ms) FROM penstock_scheduled
    WHERE due_ms <= :now_ms::bigint AND (:topic::text IS NULL OR topic = :topic::text) GROUP BY slot) AS ready
GROUP BY slot ORDER BY slot;

-- == Schedules of periodic events

-- name: periodic_list
-- A page of schedules by name, after one of them; walks the primary key, locks nothing.
SELECT name, definition, version, since_ms, last_ms, next_ms, paused, failures, error, failed_ms, now_ms(:now_ms)
FROM penstock_periodic WHERE name > :after AND (:name::text IS NULL OR name = :name::text) ORDER BY name LIMIT :limit;

-- == Counts

-- name: topic_counted
-- How many staged and scheduled events a topic has, how many of its lanes wait, and how many dead letters it has; reads the
-- tables, locks nothing.
SELECT (SELECT count(*) FROM penstock_staged WHERE topic = :topic),
       (SELECT count(*) FROM penstock_scheduled WHERE topic = :topic),
       (SELECT count(*) FROM penstock_lane WHERE topic_id = :topic_id),
       (SELECT count(*) FROM penstock_dead WHERE topic_id = :topic_id);

-- name: store_counted
-- How many staged and scheduled events, groups and dead letters there are; reads the tables, locks nothing.
SELECT (SELECT count(*) FROM penstock_staged), (SELECT count(*) FROM penstock_scheduled),
       (SELECT count(*) FROM penstock_group), (SELECT count(*) FROM penstock_dead);

-- name: owner_counted
-- How many staged and scheduled events, waiting records and dead letters have an owner tag; walks the indexes on owner,
-- locks nothing.
SELECT (SELECT count(*) FROM penstock_staged WHERE owner = :owner),
       (SELECT count(*) FROM penstock_scheduled WHERE owner = :owner),
       (SELECT count(*) FROM penstock_lane_entry WHERE owner = :owner),
       (SELECT count(*) FROM penstock_dead WHERE owner = :owner);

-- name: erase_find
-- Some places where records of an owner wait or lie as dead letters; walks ix_penstock_lane_entry_owner and
-- ix_penstock_dead_owner, locks nothing: a hint, looked at again under the cursors' locks.
SELECT * FROM (
    SELECT topic_id, partition, "offset", id FROM penstock_lane_entry WHERE owner = :owner LIMIT :limit) AS waiting
UNION
SELECT * FROM (
    SELECT topic_id, partition, "offset", id FROM penstock_dead WHERE owner = :owner LIMIT :limit) AS letters;
