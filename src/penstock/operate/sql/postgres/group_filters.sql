-- All groups with their filters; reads the table, which is small.
SELECT name, filters FROM penstock_group ORDER BY name;
