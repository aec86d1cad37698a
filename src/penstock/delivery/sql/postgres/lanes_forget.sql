-- Remove the lanes of some partitions that have neither a record nor a letter that holds them; walks the primary keys. The
-- cursors' locks are held already.
DELETE FROM penstock_lane l
WHERE l.group_id = %(group_id)s AND l.topic_id = %(topic_id)s AND l.partition = ANY(%(partitions)s::integer[])
  AND NOT EXISTS (
    SELECT 1 FROM penstock_lane_entry e
    WHERE e.group_id = l.group_id AND e.topic_id = l.topic_id AND e.partition = l.partition AND e.lane = l.lane)
  AND NOT EXISTS (
    SELECT 1 FROM penstock_dead d
    WHERE d.group_id = l.group_id AND d.topic_id = l.topic_id AND d.partition = l.partition AND d.lane = l.lane
      AND d.holding);
