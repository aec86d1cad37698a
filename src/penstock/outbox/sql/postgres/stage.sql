-- Stage one event in the caller's transaction; no lock, no counter but the sequence.
INSERT INTO penstock_staged (slot, key_hash, topic, id, key, type, value, headers, timestamp_ms, owner)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s);
