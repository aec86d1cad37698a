-- Say where partitions begin now; walks the primary key.
UPDATE penstock_head AS h SET start_offset = json_extract(w.value, '$[2]')
FROM json_each(:ranges) w
WHERE h.topic_id = :topic_id AND h.partition = json_extract(w.value, '$[0]')
  AND h.start_offset < json_extract(w.value, '$[2]');
