-- SQLite's own forms: CROSS JOIN fixes the order of tables.

-- == Lanes that wait, and the records in them

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

-- name: lanes_of_key
-- The lane of a key in a partition, and those of records of it that are retried alone, of several groups; walks the primary key.
SELECT group_id, lane, CASE WHEN held THEN 'held' WHEN state <> 'snoozed' AND (failures > 0 OR due_ms > 0) THEN 'retrying' ELSE state END,
       failures, due_ms, reason FROM penstock_lane
WHERE group_id = ANY(:groups::integer[]) AND topic_id = :topic_id AND partition = :partition
  AND (lane IN (:lane, '#late#' || :lane)
       OR (lane GLOB '#[0-9]*' AND substr(lane, instr(substr(lane, 2), '#') + 2) IN (:lane, '#late#' || :lane)))
ORDER BY lane;

-- name: places_of_key
-- The partitions where some group has a lane of a key, or of a record of it that is retried alone, or a dead letter of it;
-- reads the lanes and the dead letters of all groups.
SELECT topic_id, partition FROM penstock_lane
WHERE lane IN (:lane, '#late#' || :lane)
   OR (lane GLOB '#[0-9]*' AND substr(lane, instr(substr(lane, 2), '#') + 2) IN (:lane, '#late#' || :lane))
UNION
SELECT topic_id, partition FROM penstock_dead WHERE key = :key OR (holding AND lane = :lane);

-- == Events that are not in the log yet

-- name: staged_page
-- A page of staged events in the order of staging; walks the primary key.
SELECT slot, seq, topic, id, key, type, timestamp_ms FROM penstock_staged
WHERE seq > :after_seq AND :after_slot IS NOT NULL
  AND (:topic IS NULL OR topic = :topic)
ORDER BY seq
LIMIT :limit;

-- name: staged_by_key
-- The oldest staged event of a key; walks the primary key, up to a limit of rows.
SELECT topic, id, key, type, timestamp_ms, slot, NULL FROM (
    SELECT * FROM penstock_staged ORDER BY seq LIMIT :walk)
WHERE slot = :slot AND key_hash = :key_hash AND key = :key AND (:topic IS NULL OR topic = :topic)
ORDER BY seq LIMIT 1;

-- name: open_writers
-- Open transactions that may have staged events: SQLite has no table of them, so this reads nothing.
SELECT NULL, '', '', NULL, NULL, NULL WHERE 0;
