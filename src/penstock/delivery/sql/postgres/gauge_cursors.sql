-- How far each group is behind the log, how many of its cursors one member owns, and how many nobody does who lives; reads the
-- cursors and walks the heads' primary key, locks nothing.
SELECT g.name, sum(greatest(0, h.next_offset - c."offset")), count(*) FILTER (WHERE c.owner = %(owner)s),
       count(*) FILTER (WHERE c.owner IS NULL OR c.owner <> ALL(%(living)s::text[]))
FROM penstock_group g
JOIN penstock_cursor c ON c.group_id = g.id
JOIN penstock_head h ON h.topic_id = c.topic_id AND h.partition = c.partition
GROUP BY g.name;
