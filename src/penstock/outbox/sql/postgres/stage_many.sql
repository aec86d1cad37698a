-- Stage many events in the caller's transaction and the caller's order: the sequence is asked in that order.
-- Locks nothing.
INSERT INTO penstock_staged (slot, key_hash, topic, id, key, type, value, headers, timestamp_ms, owner)
SELECT slot, key_hash, topic, id, key, type, value, headers, timestamp_ms, owner
FROM unnest(%s::smallint[], %s::integer[], %s::text[], %s::text[], %s::bytea[], %s::text[], %s::bytea[], %s::bytea[],
            %s::bigint[], %s::text[])
     WITH ORDINALITY AS e (slot, key_hash, topic, id, key, type, value, headers, timestamp_ms, owner, place)
ORDER BY place;
