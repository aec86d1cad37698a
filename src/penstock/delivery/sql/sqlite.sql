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
SET "offset" = s.base, passed = s.passed, version = c.version + 1, crashes = s.crashes, trial = s.trial,
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
