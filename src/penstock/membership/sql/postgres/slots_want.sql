-- Write who should own slots; locks them in slot order, waiting for the moves under way.
WITH w AS MATERIALIZED (
    SELECT l.slot, n.owner FROM unnest(%(numbers)s::integer[], %(owners)s::text[]) AS n (number, owner)
    JOIN penstock_slot l ON l.slot = n.number ORDER BY l.slot FOR NO KEY UPDATE OF l)
UPDATE penstock_slot s SET owner_wanted = w.owner FROM w WHERE s.slot = w.slot;
