-- The statements of this room for every engine, in the neutral SQL that log/sql/statements.py describes. Locks are for
-- engines with many writers: in SQLite a transaction that writes is the only one.

-- name: heads
-- Where the partitions of a topic begin and end; walks the primary key, locks nothing.
SELECT partition, start_offset, next_offset FROM penstock_head WHERE topic_id = :topic_id;
