-- How much of an owner there is in each place; walks the indexes on owner, locks nothing.
SELECT (SELECT count(*) FROM penstock_staged WHERE owner = %(owner)s),
       (SELECT count(*) FROM penstock_scheduled WHERE owner = %(owner)s),
       (SELECT count(*) FROM penstock_log WHERE owner = %(owner)s),
       (SELECT count(*) FROM penstock_lane_entry WHERE owner = %(owner)s),
       (SELECT count(*) FROM penstock_dead WHERE owner = %(owner)s);
