-- How much of a topic there is in each state; reads what is staged and scheduled, walks the heads' primary key.
SELECT (SELECT count(*) FROM penstock_staged WHERE topic = %(topic)s),
       (SELECT count(*) FROM penstock_scheduled WHERE topic = %(topic)s),
       (SELECT coalesce(sum(next_offset - start_offset), 0) FROM penstock_head WHERE topic_id = %(topic_id)s),
       (SELECT count(*) FROM penstock_lane WHERE topic_id = %(topic_id)s),
       (SELECT count(*) FROM penstock_dead WHERE topic_id = %(topic_id)s);
