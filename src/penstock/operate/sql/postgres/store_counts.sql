-- How much a store holds; reads the tables, but for the log, of which it reads the heads.
SELECT (SELECT count(*) FROM penstock_topic),
       (SELECT coalesce(sum(next_offset - start_offset), 0) FROM penstock_head),
       (SELECT count(*) FROM penstock_staged),
       (SELECT count(*) FROM penstock_scheduled),
       (SELECT count(*) FROM penstock_group),
       (SELECT count(*) FROM penstock_dead);
