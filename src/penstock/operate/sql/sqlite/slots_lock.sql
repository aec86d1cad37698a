-- Hold all slots, so that nothing is moved. Nothing to lock: the transaction is the only writer.
SELECT 1;
