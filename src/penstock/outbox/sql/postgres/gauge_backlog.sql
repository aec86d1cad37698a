-- How many events are staged and how many wait for their time, each up to so many; reads the tables so far, locks nothing.
SELECT (SELECT count(*) FROM (SELECT 1 FROM penstock_staged LIMIT %(most)s) AS s),
       (SELECT count(*) FROM (SELECT 1 FROM penstock_scheduled LIMIT %(most)s) AS w);
