-- Slots that nobody in this list of living members owns; reads the table: 256 rows.
SELECT count(*) FROM penstock_slot WHERE owner IS NULL OR owner NOT IN (SELECT value FROM json_each(:living));
