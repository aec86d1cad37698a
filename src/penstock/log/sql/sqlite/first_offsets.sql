-- Where some partitions go on: the first offset at or after a place; walks the primary key once for each.
SELECT partition, "offset" FROM (
    SELECT json_extract(w.value, '$[0]') AS partition,
           (SELECT l."offset" FROM penstock_log l
            WHERE l.topic_id = :topic_id AND l.partition = json_extract(w.value, '$[0]')
              AND l."offset" >= json_extract(w.value, '$[1]')
            ORDER BY l."offset" LIMIT 1) AS "offset"
    FROM json_each(:places) w)
WHERE "offset" IS NOT NULL;
