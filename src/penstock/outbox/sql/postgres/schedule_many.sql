-- Stage many events for the future in the caller's transaction and the caller's order; locks nothing.
INSERT INTO penstock_scheduled (slot, key_hash, topic, id, key, type, value, headers, timestamp_ms, owner, due_ms)
SELECT slot, key_hash, topic, id, key, type, value, headers, timestamp_ms, owner, due_ms
FROM unnest(%s::smallint[], %s::integer[], %s::text[], %s::text[], %s::bytea[], %s::text[], %s::bytea[], %s::bytea[],
            %s::bigint[], %s::text[], %s::bigint[])
     WITH ORDINALITY AS e (slot, key_hash, topic, id, key, type, value, headers, timestamp_ms, owner, due_ms, place)
ORDER BY place;
