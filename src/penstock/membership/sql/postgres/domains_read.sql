-- What domains say: their version, and who was given a share; walks the primary key, locks nothing.
SELECT name, version, members FROM penstock_domain WHERE name = ANY(%(names)s::text[]);
