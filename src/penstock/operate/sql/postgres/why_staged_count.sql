-- How many events are staged, up to so many; reads the table so far, locks nothing.
SELECT count(*) FROM (SELECT 1 FROM penstock_staged LIMIT %(walk)s) AS s;
