-- All that is staged, in the order of staging; walks the whole table, locks nothing.
SELECT topic, id, key, type, value, headers, timestamp_ms FROM penstock_staged ORDER BY seq;
