-- Remove the records of waiting lanes from an offset on, in each of some partitions; walks the primary key.
DELETE FROM penstock_lane_entry WHERE group_id = :group_id AND topic_id = :topic_id AND (partition, "offset") IN (
    SELECT e.partition, e."offset" FROM json_each(:floors) w
    CROSS JOIN penstock_lane_entry e ON e.group_id = :group_id AND e.topic_id = :topic_id
     AND e.partition = json_extract(w.value, '$[0]') AND e."offset" >= json_extract(w.value, '$[1]'));
