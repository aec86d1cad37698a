-- How many bytes some ranges of offsets hold, as a read counts them; walks the primary key.
SELECT json_extract(w.value, '$[0]'),
       (SELECT coalesce(sum(coalesce(length(l.value), 0) + coalesce(length(l.key), 0) + coalesce(length(l.headers), 0) + 64), 0)
        FROM penstock_log l
        WHERE l.topic_id = :topic_id AND l.partition = json_extract(w.value, '$[0]')
          AND l."offset" >= json_extract(w.value, '$[1]') AND l."offset" < json_extract(w.value, '$[2]'))
FROM json_each(:ranges) w;
