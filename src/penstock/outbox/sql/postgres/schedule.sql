-- Stage one event for the future in the caller's transaction; writes ix_penstock_scheduled_due and ix_penstock_scheduled_id.
INSERT INTO penstock_scheduled (slot, key_hash, topic, id, key, type, value, headers, timestamp_ms, owner, due_ms)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s);
