-- What waits in the lanes of a group on a topic: held, resting until later and the first of these, and due; walks the
-- primary key, locks nothing.
SELECT partition, count(CASE WHEN held THEN 1 END), count(CASE WHEN NOT held AND due_ms > %(now_ms)s THEN 1 END),
       min(CASE WHEN NOT held AND due_ms > %(now_ms)s THEN due_ms END),
       count(CASE WHEN NOT held AND due_ms <= %(now_ms)s THEN 1 END)
FROM penstock_lane WHERE group_id = %(group_id)s AND topic_id = %(topic_id)s GROUP BY partition;
