-- Some records of an owner, in any order; walks ix_penstock_log_owner. A hint, looked at again when they are erased.
SELECT topic_id, partition, "offset", id FROM penstock_log WHERE owner = :owner LIMIT :limit;
