-- The turn to take slots. Nothing to lock: the transaction is the only writer.
SELECT 1;
