-- How many events are staged and how many wait for their time, each up to so many; reads the tables so far.
SELECT (SELECT count(*) FROM (SELECT 1 FROM penstock_staged LIMIT :most) AS s),
       (SELECT count(*) FROM (SELECT 1 FROM penstock_scheduled LIMIT :most) AS w);
