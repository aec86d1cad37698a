-- The oldest staged rows of these slots; walks the primary key. One order for all slots, so no slot can starve another.
SELECT seq, slot, topic, key_hash, timestamp_ms FROM penstock_staged
WHERE slot IN (SELECT value FROM json_each(:slots))
ORDER BY seq LIMIT :limit;
