-- How many bytes the records of a topic have; walks the primary key over all of it.
SELECT coalesce(sum(coalesce(octet_length(key), 0) + coalesce(octet_length(value), 0) + coalesce(octet_length(headers), 0)), 0)
FROM penstock_log WHERE topic_id = %(topic_id)s;
