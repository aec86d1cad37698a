-- Remove some staged events of an owner and return their ids; walks ix_penstock_staged_owner, locks those rows and waits
-- for a move that has them: what it has moved is found in the log.
DELETE FROM penstock_staged WHERE ctid = ANY(ARRAY(
    SELECT ctid FROM penstock_staged WHERE owner = %(owner)s LIMIT %(limit)s)) AND owner = %(owner)s
RETURNING id;
