-- How many bytes the records of a topic have; walks the primary key over all of it.
SELECT coalesce(sum(coalesce(length(key), 0) + coalesce(length(value), 0) + coalesce(length(headers), 0)), 0)
FROM penstock_log WHERE topic_id = :topic_id;
