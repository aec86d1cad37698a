-- How many slots one member owns, and how many nobody does who lives; reads the table: 256 rows, locks nothing.
SELECT count(*) FILTER (WHERE owner = %(owner)s),
       count(*) FILTER (WHERE owner IS NULL OR owner <> ALL(%(living)s::text[]))
FROM penstock_slot;
