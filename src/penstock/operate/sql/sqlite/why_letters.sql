-- The dead letters of a partition that have an offset, hold a lane, or are of a key, the oldest offset first; walks the
-- primary key.
SELECT "offset", id, failures, reason, died_ms, holding, lane FROM penstock_dead
WHERE group_id = :group_id AND topic_id = :topic_id AND partition = :partition
  AND ("offset" = :offset OR (holding AND lane = :lane) OR key = :key)
ORDER BY "offset";
