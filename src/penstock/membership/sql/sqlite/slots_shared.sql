-- Who owns each slot, and who should; reads the table: 256 rows.
SELECT slot, owner, owner_wanted FROM penstock_slot ORDER BY slot;
