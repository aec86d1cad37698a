-- The dead letters of a partition that have an offset, hold a lane, or are of a key, the oldest offset first; walks the
-- primary key, locks nothing.
SELECT "offset", id, failures, reason, died_ms, holding, lane FROM penstock_dead
WHERE group_id = %(group_id)s AND topic_id = %(topic_id)s AND partition = %(partition)s
  AND ("offset" = %(offset)s::bigint OR (holding AND lane = %(lane)s::text) OR key = %(key)s::bytea)
ORDER BY "offset";
