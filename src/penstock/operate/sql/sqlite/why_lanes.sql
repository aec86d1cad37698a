-- The lane of a key in a partition, and those of records of it that are retried alone; walks the primary key.
SELECT lane, held, failures, due_ms, reason FROM penstock_lane
WHERE group_id = :group_id AND topic_id = :topic_id AND partition = :partition
  AND (lane = :lane OR (lane GLOB '#[0-9]*' AND substr(lane, instr(substr(lane, 2), '#') + 2) = :lane))
ORDER BY lane;
