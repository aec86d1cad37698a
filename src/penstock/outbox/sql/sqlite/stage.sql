-- Stage one event in the caller's transaction; takes the writer's place, appends to the table's end.
INSERT INTO penstock_staged (slot, key_hash, topic, id, key, type, value, headers, timestamp_ms, owner)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?);
