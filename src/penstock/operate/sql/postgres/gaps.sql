-- Records of a partition that are not followed by the next offset; walks the primary key, locks nothing.
SELECT "offset", following FROM (
    SELECT "offset", lead("offset") OVER (ORDER BY "offset") AS following FROM penstock_log
    WHERE topic_id = %(topic_id)s AND partition = %(partition)s AND "offset" >= %(start)s AND "offset" < %(end)s
) AS followed
WHERE following > "offset" + 1 ORDER BY "offset";
