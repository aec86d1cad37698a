-- Which of some records wait in a lane; walks the primary key.
SELECT e.partition, e."offset" FROM json_each(:entries) w
CROSS JOIN penstock_lane_entry e ON e.group_id = :group_id AND e.topic_id = :topic_id
 AND e.partition = json_extract(w.value, '$[0]') AND e."offset" = json_extract(w.value, '$[1]');
