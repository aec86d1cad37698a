-- The oldest staged rows of each of these slots, from the head of each; walks the primary key, locks nothing.
SELECT p.seq, p.slot, p.topic, p.key_hash, p.timestamp_ms
FROM unnest(%(slots)s::smallint[]) AS o (slot)
CROSS JOIN LATERAL (
    SELECT seq, slot, topic, key_hash, timestamp_ms FROM penstock_staged s
    WHERE s.slot = o.slot
    ORDER BY s.seq LIMIT %(per_slot)s) AS p
LIMIT %(limit)s;
