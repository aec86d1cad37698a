-- Some places where records of an owner wait or lie as dead letters; walks ix_penstock_lane_entry_owner and
-- ix_penstock_dead_owner, locks nothing: a hint, looked at again under the cursors' locks.
(SELECT topic_id, partition, "offset", id FROM penstock_lane_entry WHERE owner = %(owner)s LIMIT %(limit)s)
UNION
(SELECT topic_id, partition, "offset", id FROM penstock_dead WHERE owner = %(owner)s LIMIT %(limit)s);
