-- Lets a second migration wait until this transaction has ended; locks a number that means "penstock".
SELECT pg_advisory_xact_lock(8099000947049456491);
