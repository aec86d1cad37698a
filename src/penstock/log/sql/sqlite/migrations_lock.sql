-- Nothing to do: a file has one writer, which the framework's transaction is. Reads nothing, locks nothing.
SELECT 1;
