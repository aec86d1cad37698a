-- Some records of an owner, in any order; walks ix_penstock_log_owner, locks nothing: a hint, looked at again when erased.
SELECT topic_id, partition, "offset", id FROM penstock_log WHERE owner = %(owner)s LIMIT %(limit)s;
