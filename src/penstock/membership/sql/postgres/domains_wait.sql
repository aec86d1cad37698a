-- Hold domains, waiting for whoever works on them; locks them in the order of their names.
SELECT name FROM penstock_domain WHERE name = ANY(%(names)s::text[]) ORDER BY name FOR UPDATE;
