-- Which of some lanes a dead letter holds; walks the primary key over their partitions, once.
SELECT DISTINCT partition, lane FROM penstock_dead
WHERE group_id = :group_id AND topic_id = :topic_id AND holding
  AND partition IN (SELECT json_extract(value, '$[0]') FROM json_each(:lanes))
  AND (partition, lane) IN (SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]') FROM json_each(:lanes));
