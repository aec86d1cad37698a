-- Who owns each partition of groups on topics, and who should; walks the primary key.
SELECT c.group_id, c.topic_id, c.partition, c.owner, c.owner_wanted
FROM json_each(:shared) s
JOIN penstock_cursor c
  ON c.group_id = json_extract(s.value, '$[0]') AND c.topic_id = json_extract(s.value, '$[1]')
ORDER BY c.group_id, c.topic_id, c.partition;
