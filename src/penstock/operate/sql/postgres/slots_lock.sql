-- Hold all slots, so that nothing is moved; locks them in slot order, waiting for the moves under way. 256 rows.
SELECT slot FROM penstock_slot ORDER BY slot FOR UPDATE;
