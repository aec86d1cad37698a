-- Move a cursor, only as its owner in this epoch and only from where it was; a second try of the same finds nothing.
-- Walks the primary key, locks that row.
UPDATE penstock_cursor SET "offset" = %(offset)s
WHERE group_id = %(group_id)s AND topic_id = %(topic_id)s AND partition = %(partition)s
  AND owner = %(owner)s AND epoch = %(epoch)s AND "offset" = %(previous)s;
