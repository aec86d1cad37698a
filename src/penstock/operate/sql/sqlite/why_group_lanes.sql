-- What waits in the lanes of a group on a topic: held, resting until later and the first of these, and due; walks the
-- primary key.
SELECT partition, count(CASE WHEN held THEN 1 END), count(CASE WHEN NOT held AND due_ms > :now_ms THEN 1 END),
       min(CASE WHEN NOT held AND due_ms > :now_ms THEN due_ms END),
       count(CASE WHEN NOT held AND due_ms <= :now_ms THEN 1 END)
FROM penstock_lane WHERE group_id = :group_id AND topic_id = :topic_id GROUP BY partition;
