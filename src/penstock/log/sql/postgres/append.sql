-- Add records at offsets taken under their heads' locks.
INSERT INTO penstock_log (topic_id, partition, "offset", id, key, type, value, headers, timestamp_ms, owner)
SELECT * FROM unnest(%s::integer[], %s::integer[], %s::bigint[], %s::text[], %s::bytea[], %s::text[], %s::bytea[],
                     %s::bytea[], %s::bigint[], %s::text[]);
