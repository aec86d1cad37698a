-- The oldest record of each of some lanes; walks the primary key over their partitions, once.
SELECT partition, lane, min("offset") FROM penstock_lane_entry
WHERE group_id = :group_id AND topic_id = :topic_id
  AND partition IN (SELECT json_extract(value, '$[0]') FROM json_each(:lanes))
  AND (partition, lane) IN (SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]') FROM json_each(:lanes))
GROUP BY partition, lane;
