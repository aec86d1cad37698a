-- Move staged rows into the log: number and insert only what the delete returned, then raise the heads by that.
-- Slots and heads are locked already, by this transaction; walks the primary keys.
WITH gone AS (
    DELETE FROM penstock_staged s
    WHERE s.ctid = ANY (ARRAY(
        SELECT f.ctid FROM unnest(%(slots)s::smallint[], %(seqs)s::bigint[]) AS i (slot, seq)
        CROSS JOIN LATERAL (
            SELECT r.ctid FROM penstock_staged r WHERE r.slot = i.slot AND r.seq = i.seq LIMIT 1) AS f))
    RETURNING s.*
), placed AS (
    SELECT g.*, t.id AS topic_id, mod(g.key_hash, t.partitions) AS partition,
           row_number() OVER (PARTITION BY t.id, mod(g.key_hash, t.partitions) ORDER BY g.seq) - 1 AS place
    FROM gone g
    JOIN unnest(%(topic_names)s::text[], %(topic_ids)s::integer[], %(topic_partitions)s::integer[])
         AS t (name, id, partitions) ON t.name = g.topic
), added AS (
    INSERT INTO penstock_log (topic_id, partition, "offset", id, key, type, value, headers, timestamp_ms, owner)
    SELECT p.topic_id, p.partition, h.next_offset + p.place, p.id, p.key, p.type, p.value, p.headers, p.timestamp_ms, p.owner
    FROM placed p JOIN penstock_head h ON h.topic_id = p.topic_id AND h.partition = p.partition
    ORDER BY p.topic_id, p.partition, p.place
    RETURNING topic_id, partition, timestamp_ms
), counted AS (
    SELECT topic_id, partition, count(*) AS count, max(timestamp_ms) AS max_ms FROM added GROUP BY topic_id, partition
)
UPDATE penstock_head h
SET next_offset = h.next_offset + c.count, max_ms = greatest(h.max_ms, c.max_ms)
FROM counted c
WHERE h.topic_id = c.topic_id AND h.partition = c.partition
RETURNING h.topic_id, h.partition, h.next_offset - c.count, c.count, h.max_ms;
