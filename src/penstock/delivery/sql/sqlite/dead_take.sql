-- Remove dead letters that a person has decided on, and return them; with `logged` only those whose record the log still
-- holds. Walks the primary keys.
DELETE FROM penstock_dead WHERE group_id = :group_id AND topic_id = :topic_id AND (partition, "offset") IN (
    SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]') FROM json_each(:letters))
  AND (NOT :logged OR EXISTS (
        SELECT 1 FROM penstock_log l
        WHERE l.topic_id = :topic_id AND l.partition = penstock_dead.partition AND l."offset" = penstock_dead."offset"))
RETURNING partition, "offset", lane, holding;
