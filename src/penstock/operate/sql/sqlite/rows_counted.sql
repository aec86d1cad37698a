-- How many records a partition holds within bounds, and of how many ids; walks the primary key.
SELECT count(*), count(DISTINCT id), min("offset"), max("offset") FROM penstock_log
WHERE topic_id = :topic_id AND partition = :partition AND "offset" >= :start AND "offset" < :end;
