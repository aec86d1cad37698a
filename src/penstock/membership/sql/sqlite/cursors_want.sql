-- Write who should own partitions of a group; walks the primary key.
UPDATE penstock_cursor AS c SET owner_wanted = json_extract(w.value, '$[1]')
FROM json_each(:wanted) w
WHERE c.group_id = :group_id AND c.topic_id = :topic_id AND c.partition = json_extract(w.value, '$[0]');
