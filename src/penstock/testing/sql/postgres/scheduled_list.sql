-- All that is scheduled, by when it is due; walks ix_penstock_scheduled_due, locks nothing.
SELECT due_ms, topic, id, key, type, value, headers, timestamp_ms FROM penstock_scheduled ORDER BY due_ms, seq;
