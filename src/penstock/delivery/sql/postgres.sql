-- Statements in PostgreSQL's own way: locks in an order, LATERAL, and several steps in one statement.

-- == Cursors: the position of a group in each partition, and its owner

-- name: cursors_measure
-- Tell the planner how many cursors there are, after a group was added: otherwise it assumes a handful, and a settling
-- walks all of them for each. Locks the table against other ANALYZE and VACUUM only.
ANALYZE penstock_cursor;

-- name: cursors_hand_out
-- Write how far records of some partitions are handed out, and which suspects are about to begin, before they do. Each
-- cursor only as its owner in this epoch and version. Walks the primary key; locks those rows in order, once
-- (MATERIALIZED).
WITH locked AS MATERIALIZED (
    SELECT partition FROM penstock_cursor
    WHERE group_id = :group_id AND topic_id = :topic_id AND partition = ANY(:handed.partition::integer[])
    ORDER BY partition FOR UPDATE)
UPDATE penstock_cursor c SET trial = h.trial, handed_to = h.handed_to, kept_back = h.kept_back
FROM rows(:handed, partition integer, trial text, handed_to bigint, epoch bigint, version bigint, kept_back text) AS h
JOIN locked l ON l.partition = h.partition
WHERE c.group_id = :group_id AND c.topic_id = :topic_id AND c.partition = h.partition
  AND c.owner = :owner AND c.epoch = h.epoch AND c.version = h.version
RETURNING c.partition;

-- name: cursors_settle
-- Move cursors, each only as its owner in this epoch, only from the version it was left in, and only knowing its lanes: a
-- late, stale or repeated settling finds nothing. Walks the primary key; locks those rows in order,
-- once (MATERIALIZED: a join may not run the locking again for each row).
WITH locked AS MATERIALIZED (
    SELECT partition FROM penstock_cursor
    WHERE group_id = :group_id AND topic_id = :topic_id AND partition = ANY(:settled.partition::integer[])
    ORDER BY partition FOR UPDATE)
UPDATE penstock_cursor c
SET "offset" = s.base, passed = s.passed, version = c.version + 1, crashes = s.crashes, trial = s.trial,
    handed_to = s.handed_to, kept_back = s.kept_back
FROM rows(:settled, partition integer, base bigint, passed text, crashes integer, trial text, epoch bigint,
          version bigint, lanes_version bigint, handed_to bigint, kept_back text) AS s
JOIN locked l ON l.partition = s.partition
WHERE c.group_id = :group_id AND c.topic_id = :topic_id AND c.partition = s.partition
  AND c.owner = :owner AND c.epoch = s.epoch AND c.version = s.version AND c.lanes_version = s.lanes_version
RETURNING c.partition;

-- == Dead letters: records that a group has given up

-- name: dead_holding
-- Those of some lanes that a dead letter holds; walks the primary key over their partitions, locks nothing. The cursors'
-- locks are held already.
SELECT DISTINCT d.partition, d.lane, d.whole, d.late, d.alone
FROM rows(:lanes, partition integer, lane text, whole boolean, late boolean, alone bigint) AS w
JOIN penstock_dead d ON d.group_id = :group_id AND d.topic_id = :topic_id AND d.partition = w.partition
 AND d.lane = w.lane AND d.whole = w.whole AND d.late = w.late AND d.alone = w.alone
WHERE d.holding;

-- name: dead_put
-- Store records that are given up, with all their content; walks the primary key. The cursors' locks are held already.
INSERT INTO penstock_dead (group_id, topic_id, partition, "offset", lane, whole, late, alone, holding, failures, reason,
                           died_ms, id, key, type, value, headers, timestamp_ms, owner)
SELECT * FROM unnest(?::integer[], ?::integer[], ?::integer[], ?::bigint[], ?::text[], ?::boolean[], ?::boolean[], ?::bigint[],
                     ?::boolean[], ?::integer[],
                     ?::text[], ?::bigint[], ?::text[], ?::bytea[], ?::text[], ?::bytea[], ?::bytea[], ?::bigint[],
                     ?::text[])
ON CONFLICT (group_id, topic_id, partition, "offset")
DO UPDATE SET lane = excluded.lane, whole = excluded.whole, late = excluded.late, alone = excluded.alone,
              holding = excluded.holding, failures = excluded.failures, reason = excluded.reason, died_ms = excluded.died_ms, reset_ms = NULL;

-- name: dead_skip
-- Make dead letters hold their lanes no longer, and return those that did; walks the primary key, locks those rows. The
-- cursors' locks are held already.
UPDATE penstock_dead d SET holding = false
FROM rows(:letters, partition integer, place bigint) AS w
WHERE d.group_id = :group_id AND d.topic_id = :topic_id AND d.partition = w.partition AND d."offset" = w.place
  AND d.holding
RETURNING d.partition, d."offset", d.lane, d.whole, d.late, d.alone, true;

-- name: dead_take
-- Remove dead letters that are decided on, and return them; walks the primary key, locks those rows. The cursors' locks are
-- held already.
DELETE FROM penstock_dead d
USING rows(:letters, partition integer, place bigint) AS w
WHERE d.group_id = :group_id AND d.topic_id = :topic_id AND d.partition = w.partition AND d."offset" = w.place
RETURNING d.partition, d."offset", d.lane, d.whole, d.late, d.alone, d.holding;

-- == Entries: records that wait in lanes

-- name: entries_count
-- How many records wait in each of some lanes; walks the primary key over their partitions, locks nothing.
SELECT e.partition, e.lane, e.whole, e.late, e.alone, count(*)
FROM rows(:lanes, partition integer, lane text, whole boolean, late boolean, alone bigint) AS w
JOIN penstock_lane_entry e ON e.group_id = :group_id AND e.topic_id = :topic_id AND e.partition = w.partition
 AND e.lane = w.lane AND e.whole = w.whole AND e.late = w.late AND e.alone = w.alone
GROUP BY e.partition, e.lane, e.whole, e.late, e.alone;

-- name: entries_drop
-- Remove settled records of waiting lanes; walks the primary key. The cursors' locks are held already.
DELETE FROM penstock_lane_entry e
USING rows(:entries, partition integer, place bigint) AS w
WHERE e.group_id = :group_id AND e.topic_id = :topic_id AND e.partition = w.partition AND e."offset" = w.place;

-- name: entries_heads
-- The oldest record of each of some lanes; walks the primary key over their partitions, locks nothing.
SELECT e.partition, e.lane, e.whole, e.late, e.alone, min(e."offset")
FROM rows(:lanes, partition integer, lane text, whole boolean, late boolean, alone bigint) AS w
JOIN penstock_lane_entry e ON e.group_id = :group_id AND e.topic_id = :topic_id AND e.partition = w.partition
 AND e.lane = w.lane AND e.whole = w.whole AND e.late = w.late AND e.alone = w.alone
GROUP BY e.partition, e.lane, e.whole, e.late, e.alone;

-- name: entries_read
-- The records that retention has copied to some entries of lanes, in that order and within a bound of bytes (but one record
-- at least); walks the primary key once for each (LATERAL, LIMIT), locks nothing.
SELECT partition, "offset", id, key, nullif(type, ''), value, headers, timestamp_ms, owner
FROM (
    SELECT w.place, e.partition, e."offset", e.id, e.key, e.type, e.value, e.headers, e.timestamp_ms, e.owner,
           sum(coalesce(octet_length(e.value), 0) + coalesce(octet_length(e.key), 0) + coalesce(octet_length(e.headers), 0) + 64)
               OVER before AS bytes
    FROM unnest(:entries.partition::integer[], :entries.place::bigint[]) WITH ORDINALITY AS w (partition, "offset", place)
    CROSS JOIN LATERAL (
        SELECT n.* FROM penstock_lane_entry n
        WHERE n.group_id = :group_id AND n.topic_id = :topic_id AND n.partition = w.partition
          AND n."offset" = w."offset" AND n.id IS NOT NULL
        LIMIT 1) AS e
    WINDOW before AS (ORDER BY w.place ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)) AS found
WHERE coalesce(bytes, 0) < :max_bytes
ORDER BY place;

-- name: entries_reset
-- Remove the records of waiting lanes from an offset on, in each of some partitions; walks the primary key. The cursors'
-- locks are held already.
DELETE FROM penstock_lane_entry e
USING rows(:floors, partition integer, place bigint) AS w
WHERE e.group_id = :group_id AND e.topic_id = :topic_id AND e.partition = w.partition AND e."offset" >= w.place;

-- name: entries_take
-- Remove records from the lanes they wait in, and return them; walks the primary key, locks those rows. The cursors' locks
-- are held already.
DELETE FROM penstock_lane_entry e
USING rows(:entries, partition integer, place bigint) AS w
WHERE e.group_id = :group_id AND e.topic_id = :topic_id AND e.partition = w.partition AND e."offset" = w.place
RETURNING e.partition, e."offset", e.lane, e.whole, e.late, e.alone;

-- == Lanes that wait

-- name: lanes_drop
-- Remove lanes that flow again; walks the primary key. The cursors' locks are held already.
DELETE FROM penstock_lane l
USING rows(:lanes, partition integer, lane text, whole boolean, late boolean, alone bigint) AS w
WHERE l.group_id = :group_id AND l.topic_id = :topic_id AND l.partition = w.partition
 AND l.lane = w.lane AND l.whole = w.whole AND l.late = w.late AND l.alone = w.alone;

-- name: lanes_forget
-- Remove the lanes of some partitions that have neither a record nor a letter that holds them; walks the primary keys. The
-- cursors' locks are held already.
DELETE FROM penstock_lane l
WHERE l.group_id = :group_id AND l.topic_id = :topic_id AND l.partition = ANY(:partitions::integer[])
  AND NOT EXISTS (
    SELECT 1 FROM penstock_lane_entry e
    WHERE e.group_id = l.group_id AND e.topic_id = l.topic_id AND e.partition = l.partition
 AND e.lane = l.lane AND e.whole = l.whole AND e.late = l.late AND e.alone = l.alone)
  AND NOT EXISTS (
    SELECT 1 FROM penstock_dead d
    WHERE d.group_id = l.group_id AND d.topic_id = l.topic_id AND d.partition = l.partition
 AND d.lane = l.lane AND d.whole = l.whole AND d.late = l.late AND d.alone = l.alone
      AND d.holding);

-- name: lanes_unhold
-- Release the lanes of some partitions that no letter holds any more; walks the primary keys. The cursors' locks are held
-- already.
UPDATE penstock_lane l SET state = 'slow', failures = 0, due_ms = 0, reason = :reason
WHERE l.group_id = :group_id AND l.topic_id = :topic_id AND l.state = 'held' AND l.partition = ANY(:partitions::integer[])
  AND NOT EXISTS (
    SELECT 1 FROM penstock_dead d
    WHERE d.group_id = l.group_id AND d.topic_id = l.topic_id AND d.partition = l.partition
 AND d.lane = l.lane AND d.whole = l.whole AND d.late = l.late AND d.alone = l.alone
      AND d.holding);

-- == Retention: the records that groups still need

-- name: entries_waiting_in
-- The partitions and groups with waiting records in some ranges of offsets that are not copied yet; walks the primary key
-- once for each group and range (LATERAL, LIMIT), locks nothing.
SELECT g.id, w.partition
FROM rows(:ranges, partition integer, low bigint, high bigint) AS w
CROSS JOIN penstock_group g
CROSS JOIN LATERAL (
    SELECT 1 FROM penstock_lane_entry e
    WHERE e.group_id = g.id AND e.topic_id = :topic_id AND e.partition = w.partition
      AND e."offset" >= w.low AND e."offset" < w.high AND e.id IS NULL
    LIMIT 1) AS found
ORDER BY g.id, w.partition;

-- name: entries_uncopied
-- The records of some ranges that wait in lanes and have no copy yet; walks the primary key, for each group and range
-- (LATERAL). The cursors' locks are held already.
SELECT g.id, waits.partition, waits."offset"
FROM rows(:ranges, partition integer, low bigint, high bigint) AS w
CROSS JOIN penstock_group g
CROSS JOIN LATERAL (
    SELECT n.partition, n."offset" FROM penstock_lane_entry n
    WHERE n.group_id = g.id AND n.topic_id = :topic_id AND n.partition = w.partition
      AND n."offset" >= w.low AND n."offset" < w.high AND n.id IS NULL
    ORDER BY n."offset" LIMIT w.high - w.low) AS waits;

-- name: entries_copy
-- Give waiting records copies of their own, before the log deletes them; walks the primary key. The cursors' locks are held
-- already.
UPDATE penstock_lane_entry e
SET id = w.id, key = w.key, type = w.type, value = w.value, headers = w.headers, timestamp_ms = w.timestamp_ms,
    owner = w.owner
FROM unnest(?::text[], ?::bytea[], ?::text[], ?::bytea[], ?::bytea[], ?::bigint[], ?::text[],
            ?::integer[], ?::integer[], ?::integer[], ?::bigint[])
     AS w (id, key, type, value, headers, timestamp_ms, owner, group_id, topic_id, partition, place)
WHERE e.group_id = w.group_id AND e.topic_id = w.topic_id AND e.partition = w.partition AND e."offset" = w.place;
