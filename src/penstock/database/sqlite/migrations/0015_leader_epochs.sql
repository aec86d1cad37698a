-- The leader epoch that a Kafka client commits with an offset. Adds only.
UPDATE penstock_meta SET value = '15' WHERE name = 'schema_version';

ALTER TABLE penstock_cursor ADD COLUMN leader_epoch INTEGER NOT NULL DEFAULT -1;
ALTER TABLE penstock_pending_offset ADD COLUMN leader_epoch INTEGER NOT NULL DEFAULT -1;
