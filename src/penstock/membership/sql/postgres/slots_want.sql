-- Write who should own slots; locks them in slot order, waiting for the moves under way.
UPDATE penstock_slot s SET owner_wanted = w.owner
FROM (
    SELECT l.slot, n.owner FROM unnest(%(numbers)s::integer[], %(owners)s::text[]) AS n (number, owner)
    JOIN penstock_slot l ON l.slot = n.number ORDER BY l.slot FOR NO KEY UPDATE OF l) w
WHERE s.slot = w.slot;
