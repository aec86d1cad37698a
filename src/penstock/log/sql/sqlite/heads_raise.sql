-- Raise heads by what was added to them; walks the primary key.
UPDATE penstock_head AS h
SET next_offset = h.next_offset + json_extract(w.value, '$[2]'), max_ms = max(h.max_ms, json_extract(w.value, '$[3]'))
FROM json_each(:raises) w
WHERE h.topic_id = json_extract(w.value, '$[0]') AND h.partition = json_extract(w.value, '$[1]');
