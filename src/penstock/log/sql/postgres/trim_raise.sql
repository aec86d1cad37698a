-- Say where partitions begin now, last and shortly before the commit; locks those heads in order, once (MATERIALIZED: a
-- join may not run the locking again for each row), walks the primary key.
WITH locked AS MATERIALIZED (
    SELECT partition FROM penstock_head
    WHERE topic_id = %(topic_id)s AND partition = ANY(%(partitions)s::integer[])
    ORDER BY partition FOR UPDATE)
UPDATE penstock_head h SET start_offset = w.high
FROM unnest(%(partitions)s::integer[], %(lows)s::bigint[], %(highs)s::bigint[]) AS w (partition, low, high)
JOIN locked ON locked.partition = w.partition
WHERE h.topic_id = %(topic_id)s AND h.partition = w.partition AND h.start_offset < w.high;
