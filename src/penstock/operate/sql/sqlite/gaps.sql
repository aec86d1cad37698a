-- Records of a partition that are not followed by the next offset; walks the primary key.
SELECT "offset", following FROM (
    SELECT "offset", lead("offset") OVER (ORDER BY "offset") AS following FROM penstock_log
    WHERE topic_id = :topic_id AND partition = :partition AND "offset" >= :start AND "offset" < :end
) AS followed
WHERE following > "offset" + 1 ORDER BY "offset";
