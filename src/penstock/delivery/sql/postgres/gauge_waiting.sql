-- How many lanes of each group wait by themselves, how many for a person, and how many dead letters it has; reads the lanes and
-- walks the letters' primary key, locks nothing.
SELECT g.name,
       (SELECT count(*) FROM penstock_lane l WHERE l.group_id = g.id AND NOT l.held),
       (SELECT count(*) FROM penstock_lane l WHERE l.group_id = g.id AND l.held),
       (SELECT count(*) FROM penstock_dead d WHERE d.group_id = g.id)
FROM penstock_group g;
