-- The next offsets of some heads; walks the primary key. The transaction is the only writer, so nothing to lock.
SELECT h.topic_id, h.partition, h.next_offset, h.max_ms
FROM json_each(:heads) w
JOIN penstock_head h
  ON h.topic_id = json_extract(w.value, '$[0]') AND h.partition = json_extract(w.value, '$[1]')
ORDER BY h.topic_id, h.partition;
