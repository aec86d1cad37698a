-- The bound of handed-out records, so that only those are marked after a loss; leases by the clock of a host. Adds
-- only.
UPDATE penstock_meta SET value = '16' WHERE name = 'schema_version';

-- The owner or earlier owners may have handed out records below it, and none at or above.
ALTER TABLE penstock_cursor ADD COLUMN handed_to bigint NOT NULL DEFAULT 0;

-- Owners of the previous version did not record it: any record of the log may have been handed out.
UPDATE penstock_cursor SET handed_to = coalesce(
    (SELECT h.next_offset FROM penstock_head h
     WHERE h.topic_id = penstock_cursor.topic_id AND h.partition = penstock_cursor.partition), 0)
WHERE owner IS NOT NULL OR crashes > 0;

-- Exceptions below it that were not handed out: a bitmap, in hex, from the last of them down.
ALTER TABLE penstock_cursor ADD COLUMN kept_back text NOT NULL DEFAULT '';

-- End of the lease by the clock of the member's own host, in milliseconds since its start: members of one host know
-- which of them live, whatever happens to the time of day. NULL: a member of the previous version.
ALTER TABLE penstock_member ADD COLUMN host_lease_until_ms bigint;
