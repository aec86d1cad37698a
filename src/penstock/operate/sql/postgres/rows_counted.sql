-- How many records a partition holds within bounds, and of how many ids; walks the primary key, locks nothing.
SELECT count(*), count(DISTINCT id), min("offset"), max("offset") FROM penstock_log
WHERE topic_id = %(topic_id)s AND partition = %(partition)s AND "offset" >= %(start)s AND "offset" < %(end)s;
