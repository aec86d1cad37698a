-- Which of these slots the owner still holds in these epochs. The transaction is the only writer: that is the lock.
SELECT s.slot
FROM json_each(:owned) o
JOIN penstock_slot s ON s.slot = json_extract(o.value, '$[0]') AND s.epoch = json_extract(o.value, '$[1]')
WHERE s.owner = :owner
ORDER BY s.slot;
