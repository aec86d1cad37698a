-- Move a cursor, only as its owner in this epoch and only from where it was; a second try of the same finds nothing.
-- Walks the primary key.
UPDATE penstock_cursor SET "offset" = :offset
WHERE group_id = :group_id AND topic_id = :topic_id AND partition = :partition
  AND owner = :owner AND epoch = :epoch AND "offset" = :previous;
