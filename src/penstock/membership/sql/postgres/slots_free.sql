-- Slots that nobody in this list of living members owns; reads the table: 256 rows. A hint: nothing is locked.
SELECT count(*) FROM penstock_slot WHERE owner IS NULL OR owner <> ALL(%(living)s::text[]);
