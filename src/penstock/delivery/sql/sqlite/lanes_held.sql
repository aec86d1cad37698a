-- Which of some lanes are held; walks the primary key.
SELECT l.partition, l.lane FROM json_each(:lanes) w
CROSS JOIN penstock_lane l ON l.group_id = :group_id AND l.topic_id = :topic_id
 AND l.partition = json_extract(w.value, '$[0]') AND l.lane = json_extract(w.value, '$[1]')
WHERE l.held;
