-- Hold domains, to work out who should own what; locks those that nobody holds, in the order of their names, and passes
-- by the others: somebody is working on them.
SELECT name FROM penstock_domain WHERE name = ANY(%(names)s::text[]) ORDER BY name FOR UPDATE SKIP LOCKED;
