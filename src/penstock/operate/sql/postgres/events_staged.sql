-- A page of staged events, by slot and then in the order of staging; walks the primary key, locks nothing.
SELECT slot, seq, topic, id, key, type, timestamp_ms FROM penstock_staged
WHERE (slot, seq) > (%(after_slot)s::integer, %(after_seq)s::bigint)
  AND (%(topic)s::text IS NULL OR topic = %(topic)s::text)
ORDER BY slot, seq
LIMIT %(limit)s;
