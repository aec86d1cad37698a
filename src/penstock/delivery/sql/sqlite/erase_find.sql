-- Some places where records of an owner wait or lie as dead letters; walks ix_penstock_lane_entry_owner and
-- ix_penstock_dead_owner. A hint, looked at again in the transaction that acts.
SELECT * FROM (
    SELECT topic_id, partition, "offset", id FROM penstock_lane_entry WHERE owner = :owner LIMIT :limit)
UNION
SELECT * FROM (SELECT topic_id, partition, "offset", id FROM penstock_dead WHERE owner = :owner LIMIT :limit);
