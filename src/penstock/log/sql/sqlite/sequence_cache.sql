-- How many numbers are handed out at a time: with one writer, rowids rise one by one, in the order of commits.
-- Reads nothing, locks nothing.
SELECT 1 WHERE :sequence IS NOT NULL;
