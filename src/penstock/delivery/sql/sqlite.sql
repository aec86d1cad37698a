-- What SQLite is told in its own way: it has one writer and so no locks, and CROSS JOIN keeps it to an order of tables.

-- == Cursors: where a group is in each partition, and who owns it

-- name: cursors_measure
-- Nothing to tell: the plans of SQLite do not depend on how many cursors there are. Locks and walks nothing.
SELECT 1;

-- name: cursors_settle
-- Move cursors, each only as its owner in this epoch and only from the version it was left in: a late, stale or repeated
-- settling finds nothing. One that is calm again forgets its crashes. Walks the primary key; what is settled is read from
-- the JSON once (MATERIALIZED), not for each cursor.
WITH s AS MATERIALIZED (
    SELECT json_extract(value, '$[0]') AS number, json_extract(value, '$[1]') AS base,
           json_extract(value, '$[2]') AS passed, json_extract(value, '$[3]') AS calm,
           json_extract(value, '$[4]') AS epoch, json_extract(value, '$[5]') AS version
    FROM json_each(:settled))
UPDATE penstock_cursor AS c
SET "offset" = s.base, passed = s.passed, version = c.version + 1,
    crashes = CASE WHEN s.calm THEN 0 ELSE c.crashes END, trying = CASE WHEN s.calm THEN NULL ELSE c.trying END
FROM s
WHERE c.group_id = :group_id AND c.topic_id = :topic_id AND c.partition = s.number
  AND c.owner = :owner AND c.epoch = s.epoch AND c.version = s.version
RETURNING partition;

-- name: cursors_take
-- Take the cursors that have work (records behind them, or a lane that is due) and that nobody in this list of living
-- members owns. A new owner is a new epoch; one that did not release is counted as a crash. Walks the primary keys.
UPDATE penstock_cursor AS c
SET owner = :owner, epoch = c.epoch + 1, crashes = c.crashes + CASE WHEN c.owner IS NULL THEN 0 ELSE 1 END
FROM rows(:ends, partition integer, place bigint) AS h
WHERE c.group_id = :group_id AND c.topic_id = :topic_id AND h.partition = c.partition
  AND (c.owner IS NULL OR c.owner NOT IN (SELECT value FROM json_each(:living)))
  AND (h.place > c."offset" OR EXISTS (
        SELECT 1 FROM penstock_lane l
        WHERE l.group_id = c.group_id AND l.topic_id = c.topic_id AND l.partition = c.partition
          AND l.state <> 'held' AND l.due_ms <= now_ms(:now_ms)))
RETURNING partition, "offset", epoch, version, passed, crashes, trying;

-- == Dead letters: records that a group has given up

-- name: dead_holding
-- Which of some lanes a dead letter holds; walks the primary key over their partitions, once.
SELECT DISTINCT partition, lane FROM penstock_dead
WHERE group_id = :group_id AND topic_id = :topic_id AND holding
  AND partition IN (SELECT json_extract(value, '$[0]') FROM json_each(:lanes))
  AND (partition, lane) IN (SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]') FROM json_each(:lanes));

-- name: dead_put
-- Keep a record that is given up, with all it holds; walks the primary key.
INSERT INTO penstock_dead (group_id, topic_id, partition, "offset", lane, holding, failures, reason, died_ms,
                           id, key, type, value, headers, timestamp_ms, owner)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (group_id, topic_id, partition, "offset")
DO UPDATE SET lane = excluded.lane, holding = excluded.holding, failures = excluded.failures, reason = excluded.reason,
              died_ms = excluded.died_ms, reset_ms = NULL;

-- name: dead_skip
-- Let dead letters hold their lanes no more, and return those that did; walks the primary key.
UPDATE penstock_dead SET holding = false
WHERE group_id = :group_id AND topic_id = :topic_id AND holding AND (partition, "offset") IN (
    SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]') FROM json_each(:letters))
RETURNING partition, "offset", lane, true;

-- name: dead_take
-- Remove dead letters that are decided on, and return them; walks the primary key.
DELETE FROM penstock_dead WHERE group_id = :group_id AND topic_id = :topic_id AND (partition, "offset") IN (
    SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]') FROM json_each(:letters))
RETURNING partition, "offset", lane, holding;

-- == Entries: records that wait in lanes

-- name: entries_count
-- How many records wait in each of some lanes; walks the primary key over their partitions, once.
SELECT partition, lane, count(*) FROM penstock_lane_entry
WHERE group_id = :group_id AND topic_id = :topic_id
  AND partition IN (SELECT json_extract(value, '$[0]') FROM json_each(:lanes))
  AND (partition, lane) IN (SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]') FROM json_each(:lanes))
GROUP BY partition, lane;

-- name: entries_drop
-- Remove records of waiting lanes that are settled; walks the primary key.
DELETE FROM penstock_lane_entry WHERE group_id = :group_id AND topic_id = :topic_id AND (partition, "offset") IN (
    SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]') FROM json_each(:entries));

-- name: entries_heads
-- The oldest record of each of some lanes; walks the primary key over their partitions, once.
SELECT partition, lane, min("offset") FROM penstock_lane_entry
WHERE group_id = :group_id AND topic_id = :topic_id
  AND partition IN (SELECT json_extract(value, '$[0]') FROM json_each(:lanes))
  AND (partition, lane) IN (SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]') FROM json_each(:lanes))
GROUP BY partition, lane;

-- name: entries_read
-- The records that retention has copied to some entries of lanes, in that order and no more than so many bytes
-- (but one record at least); walks the primary key once for each (cross join).
SELECT partition, "offset", id, key, nullif(type, ''), value, headers, timestamp_ms
FROM (
    SELECT e.partition, e."offset", e.id, e.key, e.type, e.value, e.headers, e.timestamp_ms,
           sum(coalesce(length(e.value), 0) + coalesce(length(e.key), 0) + coalesce(length(e.headers), 0) + 64)
               OVER (ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS bytes
    FROM json_each(:entries) w
    CROSS JOIN penstock_lane_entry e ON e.group_id = :group_id AND e.topic_id = :topic_id
     AND e.partition = json_extract(w.value, '$[0]') AND e."offset" = json_extract(w.value, '$[1]')
    WHERE e.id IS NOT NULL)
WHERE coalesce(bytes, 0) < :max_bytes;

-- name: entries_reset
-- Remove the records of waiting lanes from an offset on, in each of some partitions; walks the primary key.
DELETE FROM penstock_lane_entry WHERE group_id = :group_id AND topic_id = :topic_id AND (partition, "offset") IN (
    SELECT e.partition, e."offset" FROM json_each(:floors) w
    CROSS JOIN penstock_lane_entry e ON e.group_id = :group_id AND e.topic_id = :topic_id
     AND e.partition = json_extract(w.value, '$[0]') AND e."offset" >= json_extract(w.value, '$[1]'));

-- name: entries_take
-- Remove records from the lanes they wait in, and return them; walks the primary key.
DELETE FROM penstock_lane_entry WHERE group_id = :group_id AND topic_id = :topic_id AND (partition, "offset") IN (
    SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]') FROM json_each(:entries))
RETURNING partition, "offset", lane;

-- == Lanes that wait

-- name: lanes_drop
-- Remove lanes that flow again; walks the primary key.
DELETE FROM penstock_lane WHERE group_id = :group_id AND topic_id = :topic_id AND (partition, lane) IN (
    SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]') FROM json_each(:lanes));

-- name: lanes_forget
-- Remove the lanes of some partitions that have neither a record nor a letter that holds them; walks the primary keys,
-- each once.
DELETE FROM penstock_lane WHERE group_id = :group_id AND topic_id = :topic_id
  AND partition IN (SELECT value FROM json_each(:partitions))
  AND (partition, lane) NOT IN (
    SELECT e.partition, e.lane FROM penstock_lane_entry e WHERE e.group_id = :group_id AND e.topic_id = :topic_id)
  AND (partition, lane) NOT IN (
    SELECT d.partition, d.lane FROM penstock_dead d WHERE d.group_id = :group_id AND d.topic_id = :topic_id AND d.holding);

-- name: lanes_list
-- A page of waiting lanes, by group, topic, partition and lane, after one of them; with `lane` those of one key, also where
-- a record of it is retried alone. Walks the primary key: the cross joins keep SQLite from another order.
SELECT l.group_id, l.topic_id, l.partition, l.lane, g.name, l.state, l.failures, l.due_ms, l.reason
FROM penstock_lane l
CROSS JOIN penstock_group g ON g.id = l.group_id
WHERE (l.group_id, l.topic_id, l.partition, l.lane) > (:after_group, :after_topic, :after_partition, :after_lane)
  AND (:group_id IS NULL OR l.group_id = :group_id)
  AND (:topic_id IS NULL OR l.topic_id = :topic_id)
  AND (:held IS NULL OR (l.state = 'held') = :held)
  AND (:lane IS NULL OR l.lane = :lane
       OR (l.lane GLOB '#[0-9]*' AND substr(l.lane, instr(substr(l.lane, 2), '#') + 2) = :lane))
ORDER BY l.group_id, l.topic_id, l.partition, l.lane
LIMIT :limit;

-- name: lanes_unhold
-- Let the lanes of some partitions go on that no letter holds any more; walks the primary keys, each once.
UPDATE penstock_lane SET state = 'slow', failures = 0, due_ms = 0, reason = :reason
WHERE group_id = :group_id AND topic_id = :topic_id AND state = 'held'
  AND partition IN (SELECT value FROM json_each(:partitions))
  AND (partition, lane) NOT IN (
    SELECT d.partition, d.lane FROM penstock_dead d WHERE d.group_id = :group_id AND d.topic_id = :topic_id AND d.holding);

-- name: entries_copies
-- The copies that waiting records have, of some places; walks the primary key (cross join).
SELECT e.partition, e."offset", e.id, e.key, nullif(e.type, ''), e.value, e.headers, e.timestamp_ms, e.owner
FROM rows(:entries, partition integer, place bigint) AS w
CROSS JOIN penstock_lane_entry e ON e.group_id = :group_id AND e.topic_id = :topic_id AND e.partition = w.partition
 AND e."offset" = w.place
WHERE e.id IS NOT NULL;

-- == Retention: what groups still need

-- name: entries_waiting_in
-- In which partitions of which groups records wait that some ranges of offsets hold and that are not copied yet; walks
-- the primary key once for each group and range (cross joins).
SELECT DISTINCT g.id, e.partition
FROM json_each(:ranges) w
CROSS JOIN penstock_group g
CROSS JOIN penstock_lane_entry e ON e.group_id = g.id AND e.topic_id = :topic_id
 AND e.partition = json_extract(w.value, '$[0]')
 AND e."offset" >= json_extract(w.value, '$[1]') AND e."offset" < json_extract(w.value, '$[2]')
WHERE e.id IS NULL
ORDER BY g.id, e.partition;

-- name: entries_uncopied
-- The records of some ranges that wait in lanes and have no copy yet; walks the primary key, for each group and range (cross
-- joins).
SELECT e.group_id, e.partition, e."offset"
FROM rows(:ranges, partition integer, low bigint, high bigint) AS w
CROSS JOIN penstock_group g
CROSS JOIN penstock_lane_entry e ON e.group_id = g.id AND e.topic_id = :topic_id AND e.partition = w.partition
 AND e."offset" >= w.low AND e."offset" < w.high
WHERE e.id IS NULL;

-- name: entries_copy
-- Give a waiting record a copy of its own, before the log deletes it; walks the primary key.
UPDATE penstock_lane_entry
SET id = ?5, key = ?6, type = ?7, value = ?8, headers = ?9, timestamp_ms = ?10, owner = ?11
WHERE group_id = ?1 AND topic_id = ?2 AND partition = ?3 AND "offset" = ?4;

-- == For operations and listings

-- name: groups_on_partition
-- The groups on a partition and where they are; walks the groups, and the primary key of cursors for each.
SELECT g.id, g.name, g.created_ms, g.filters, g.paused_ms, g.seen_ms,
       c."offset", c.passed, c.owner, c.crashes, c.trying
FROM penstock_group g
CROSS JOIN penstock_cursor c ON c.group_id = g.id AND c.topic_id = :topic_id AND c.partition = :partition
WHERE :group_id IS NULL OR g.id = :group_id
ORDER BY g.name;

-- name: lanes_of_key
-- The lane of a key in a partition, and those of records of it that are retried alone; walks the primary key.
SELECT lane, state, failures, due_ms, reason FROM penstock_lane
WHERE group_id = :group_id AND topic_id = :topic_id AND partition = :partition
  AND (lane = :lane OR (lane GLOB '#[0-9]*' AND substr(lane, instr(substr(lane, 2), '#') + 2) = :lane))
ORDER BY lane;
