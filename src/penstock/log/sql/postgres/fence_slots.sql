-- Lock, in slot order, those of these slots that the owner still holds in these epochs; only they may go on.
SELECT s.slot
FROM unnest(%(slots)s::smallint[], %(epochs)s::bigint[]) AS o (slot, epoch)
JOIN penstock_slot s ON s.slot = o.slot AND s.epoch = o.epoch
WHERE s.owner = %(owner)s
ORDER BY s.slot
FOR UPDATE OF s;
