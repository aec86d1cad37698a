-- In which partitions of which groups records wait that some ranges of offsets hold and that are not copied yet; walks
-- the primary key once for each group and range (cross joins).
SELECT DISTINCT g.id, e.partition
FROM json_each(:ranges) w
CROSS JOIN penstock_group g
CROSS JOIN penstock_lane_entry e ON e.group_id = g.id AND e.topic_id = :topic_id
 AND e.partition = json_extract(w.value, '$[0]')
 AND e."offset" >= json_extract(w.value, '$[1]') AND e."offset" < json_extract(w.value, '$[2]')
WHERE e.id IS NULL
ORDER BY g.id, e.partition;
