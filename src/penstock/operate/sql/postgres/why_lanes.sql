-- The lane of a key in a partition, and those of records of it that are retried alone; walks the primary key, locks nothing.
SELECT lane, held, failures, due_ms, reason FROM penstock_lane
WHERE group_id = %(group_id)s AND topic_id = %(topic_id)s AND partition = %(partition)s
  AND (lane = %(lane)s::text OR (lane ~ '^#[0-9]+#' AND substr(lane, strpos(substr(lane, 2), '#') + 2) = %(lane)s::text))
ORDER BY lane;
