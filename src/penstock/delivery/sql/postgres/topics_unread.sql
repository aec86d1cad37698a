-- The topics that have records and no cursor of any group, and how many; reads the topics and, once, the cursors; walks the
-- heads' primary key, locks nothing.
SELECT t.name, sum(h.next_offset - h.start_offset)
FROM penstock_topic t
JOIN penstock_head h ON h.topic_id = t.id
WHERE t.id NOT IN (SELECT topic_id FROM penstock_cursor)
GROUP BY t.name
HAVING sum(h.next_offset - h.start_offset) > 0;
