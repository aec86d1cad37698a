-- Statements in SQLite's own way: it has one writer and so no locks, and CROSS JOIN keeps it to an order of tables.

-- == Cursors: the position of a group in each partition, and its owner

-- name: cursors_hand_out
-- Write how far records of some partitions are handed out, and which suspects are about to begin, before they do. Each
-- cursor only as its owner in this epoch and version. Walks the primary key; the JSON is read once (MATERIALIZED).
WITH h AS MATERIALIZED (
    SELECT json_extract(value, '$[0]') AS number, json_extract(value, '$[1]') AS trial,
           json_extract(value, '$[2]') AS handed_to, json_extract(value, '$[3]') AS epoch,
           json_extract(value, '$[4]') AS version, json_extract(value, '$[5]') AS kept_back
    FROM json_each(:handed))
UPDATE penstock_cursor AS c SET trial = h.trial, handed_to = h.handed_to, kept_back = h.kept_back
FROM h
WHERE c.group_id = :group_id AND c.topic_id = :topic_id AND c.partition = h.number
  AND c.owner = :owner AND c.epoch = h.epoch AND c.version = h.version
RETURNING partition;

-- name: cursors_settle
-- Move cursors, each only as its owner in this epoch, only from the version it was left in, and only knowing its lanes: a
-- late, stale or repeated settling finds nothing. Walks the primary key; what is settled is read from
-- the JSON once (MATERIALIZED), not for each cursor.
WITH s AS MATERIALIZED (
    SELECT json_extract(value, '$[0]') AS number, json_extract(value, '$[1]') AS base,
           json_extract(value, '$[2]') AS passed, json_extract(value, '$[3]') AS crashes,
           json_extract(value, '$[4]') AS trial, json_extract(value, '$[5]') AS epoch,
           json_extract(value, '$[6]') AS version, json_extract(value, '$[7]') AS lanes_version,
           json_extract(value, '$[8]') AS handed_to, json_extract(value, '$[9]') AS kept_back
    FROM json_each(:settled))
UPDATE penstock_cursor AS c
SET "offset" = s.base, passed = s.passed, version = c.version + 1, crashes = s.crashes, trying = NULL, trial = s.trial,
    handed_to = s.handed_to, kept_back = s.kept_back
FROM s
WHERE c.group_id = :group_id AND c.topic_id = :topic_id AND c.partition = s.number
  AND c.owner = :owner AND c.epoch = s.epoch AND c.version = s.version AND c.lanes_version = s.lanes_version
RETURNING partition;

-- == Entries: records that wait in lanes

-- name: entries_read
-- The records that retention has copied to some entries of lanes, in that order and within a bound of bytes (but one record
-- at least); walks the primary key once for each (cross join).
SELECT partition, "offset", id, key, nullif(type, ''), value, headers, timestamp_ms, owner
FROM (
    SELECT e.partition, e."offset", e.id, e.key, e.type, e.value, e.headers, e.timestamp_ms, e.owner,
           sum(coalesce(length(e.value), 0) + coalesce(length(e.key), 0) + coalesce(length(e.headers), 0) + 64)
               OVER (ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS bytes
    FROM json_each(:entries) w
    CROSS JOIN penstock_lane_entry e ON e.group_id = :group_id AND e.topic_id = :topic_id
     AND e.partition = json_extract(w.value, '$[0]') AND e."offset" = json_extract(w.value, '$[1]')
    WHERE e.id IS NOT NULL)
WHERE coalesce(bytes, 0) < :max_bytes;

-- == Lanes that wait

-- name: lanes_list
-- A page of waiting lanes, by group, topic, partition and lane, after one of them; with `lane` those of one key, also where
-- a record of it is retried alone. Walks the primary key: the cross joins keep SQLite from another order.
SELECT l.group_id, l.topic_id, l.partition, l.lane, g.name,
       CASE WHEN l.held THEN 'held' WHEN l.state <> 'snoozed' AND (l.failures > 0 OR l.due_ms > 0) THEN 'retrying' ELSE l.state END,
       l.failures, l.due_ms, l.reason
FROM penstock_lane l
CROSS JOIN penstock_group g ON g.id = l.group_id
WHERE (l.group_id, l.topic_id, l.partition, l.lane) > (:after_group, :after_topic, :after_partition, :after_lane)
  AND (:group_id IS NULL OR l.group_id = :group_id)
  AND (:topic_id IS NULL OR l.topic_id = :topic_id)
  AND (:held IS NULL OR l.held = :held)
  AND (:lane IS NULL OR l.lane IN (:lane, '#late#' || :lane)
       OR (l.lane GLOB '#[0-9]*' AND substr(l.lane, instr(substr(l.lane, 2), '#') + 2) IN (:lane, '#late#' || :lane)))
ORDER BY l.group_id, l.topic_id, l.partition, l.lane
LIMIT :limit;

-- == For operations and listings

-- name: places_of_key
-- The partitions where some group has a lane of a key, or of a record of it that is retried alone, or a dead letter of it;
-- reads the lanes and the dead letters of all groups.
SELECT topic_id, partition FROM penstock_lane
WHERE lane IN (:lane, '#late#' || :lane)
   OR (lane GLOB '#[0-9]*' AND substr(lane, instr(substr(lane, 2), '#') + 2) IN (:lane, '#late#' || :lane))
UNION
SELECT topic_id, partition FROM penstock_dead WHERE key = :key OR (holding AND lane = :lane);

-- name: lanes_of_key
-- The lane of a key in a partition, and those of records of it that are retried alone, of several groups; walks the primary key.
SELECT group_id, lane, CASE WHEN held THEN 'held' WHEN state <> 'snoozed' AND (failures > 0 OR due_ms > 0) THEN 'retrying' ELSE state END,
       failures, due_ms, reason FROM penstock_lane
WHERE group_id = ANY(:groups::integer[]) AND topic_id = :topic_id AND partition = :partition
  AND (lane IN (:lane, '#late#' || :lane)
       OR (lane GLOB '#[0-9]*' AND substr(lane, instr(substr(lane, 2), '#') + 2) IN (:lane, '#late#' || :lane)))
ORDER BY lane;
