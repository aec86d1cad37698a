-- How many slots one member owns, and how many nobody does who lives; reads the table: 256 rows.
SELECT count(*) FILTER (WHERE owner = :owner),
       count(*) FILTER (WHERE owner IS NULL OR owner NOT IN (SELECT value FROM json_each(:living)))
FROM penstock_slot;
