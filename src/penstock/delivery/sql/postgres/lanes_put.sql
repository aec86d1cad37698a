-- Write down lanes that wait; walks the primary key. The cursors' locks are held already.
INSERT INTO penstock_lane (group_id, topic_id, partition, lane, held, failures, due_ms, reason)
SELECT %(group_id)s, %(topic_id)s, l.*
FROM unnest(%(partitions)s::integer[], %(lanes)s::text[], %(held)s::boolean[], %(failures)s::integer[],
            %(due_ms)s::bigint[], %(reasons)s::text[]) AS l
ON CONFLICT (group_id, topic_id, partition, lane)
DO UPDATE SET held = excluded.held, failures = excluded.failures, due_ms = excluded.due_ms, reason = excluded.reason;
