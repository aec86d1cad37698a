-- How many numbers a session takes from the staging sequence at a time; locks nothing.
SELECT seqcache FROM pg_sequence WHERE seqrelid = to_regclass(%(sequence)s);
