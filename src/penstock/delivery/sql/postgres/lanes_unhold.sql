-- Let the lanes of some partitions go on that no letter holds any more; walks the primary keys. The cursors' locks are held
-- already.
UPDATE penstock_lane l SET held = false, failures = 0, due_ms = 0, reason = %(reason)s
WHERE l.group_id = %(group_id)s AND l.topic_id = %(topic_id)s AND l.held AND l.partition = ANY(%(partitions)s::integer[])
  AND NOT EXISTS (
    SELECT 1 FROM penstock_dead d
    WHERE d.group_id = l.group_id AND d.topic_id = l.topic_id AND d.partition = l.partition AND d.lane = l.lane
      AND d.holding);
