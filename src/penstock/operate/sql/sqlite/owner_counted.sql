-- How much of an owner there is in each place; walks the indexes on owner.
SELECT (SELECT count(*) FROM penstock_staged WHERE owner = :owner),
       (SELECT count(*) FROM penstock_scheduled WHERE owner = :owner),
       (SELECT count(*) FROM penstock_log WHERE owner = :owner),
       (SELECT count(*) FROM penstock_lane_entry WHERE owner = :owner),
       (SELECT count(*) FROM penstock_dead WHERE owner = :owner);
