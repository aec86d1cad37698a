-- How far records are handed out, so that only those are marked after a loss; leases by the clock of a host. Adds only.
UPDATE penstock_meta SET value = '16' WHERE name = 'schema_version';

-- Records below may have been handed out by the owner or by owners before it, those at or above have not.
ALTER TABLE penstock_cursor ADD COLUMN handed_to INTEGER NOT NULL DEFAULT 0;

-- Owners of the version before did not write it down: whatever the log holds may have been handed out.
UPDATE penstock_cursor SET handed_to = coalesce(
    (SELECT h.next_offset FROM penstock_head h
     WHERE h.topic_id = penstock_cursor.topic_id AND h.partition = penstock_cursor.partition), 0)
WHERE owner IS NOT NULL OR crashes > 0;

-- Those below it that have not been handed out either: a bitmap, in hex, from the last of them down.
ALTER TABLE penstock_cursor ADD COLUMN kept_back TEXT NOT NULL DEFAULT '';

-- Until when the lease runs by the clock of the member's own host, in milliseconds since it was started: whatever is done to
-- the time of day, members of one host know who lives. NULL: of a member of the version before.
ALTER TABLE penstock_member ADD COLUMN host_lease_until_ms INTEGER;
