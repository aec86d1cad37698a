-- The waiting lanes of some partitions; walks the primary key, locks nothing.
SELECT partition, lane, held, failures, due_ms, reason FROM penstock_lane
WHERE group_id = %(group_id)s AND topic_id = %(topic_id)s AND partition = ANY(%(partitions)s::integer[]);
