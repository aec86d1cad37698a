-- Of some ranges of offsets the place after the oldest records that together have the bytes too many; walks the primary key.
SELECT json_extract(w.value, '$[0]'),
       (SELECT max(s."offset") + 1 FROM (
            SELECT l."offset", sum(coalesce(length(l.value), 0) + coalesce(length(l.key), 0) + coalesce(length(l.headers), 0) + 64)
                       OVER (ORDER BY l."offset" ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before
            FROM penstock_log l
            WHERE l.topic_id = :topic_id AND l.partition = json_extract(w.value, '$[0]')
              AND l."offset" >= json_extract(w.value, '$[1]') AND l."offset" < json_extract(w.value, '$[2]')) AS s
        WHERE coalesce(s.before, 0) < json_extract(w.value, '$[3]'))
FROM json_each(:ranges) w;
