-- Operations: tokens against duplicates, pauses, retention of topics, copies for lanes, owner tags everywhere, the
-- audit.
UPDATE penstock_meta SET value = '5' WHERE name = 'schema_version';

-- Events published with a token: the same token again, within its window, is the same event. token: 16 bytes of hash.
CREATE TABLE penstock_token (
    token      BLOB NOT NULL PRIMARY KEY,
    id         TEXT NOT NULL,
    created_ms INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX ix_penstock_token_created ON penstock_token (created_ms);

-- The audit: actors and their operations on this store. subject: the target of the operation, as JSON; never a payload.
-- count: the number of affected items.
CREATE TABLE penstock_audit (
    id      INTEGER PRIMARY KEY AUTOINCREMENT,
    at_ms   INTEGER NOT NULL,
    actor   TEXT NOT NULL,
    action  TEXT NOT NULL,
    subject TEXT NOT NULL,
    count   INTEGER NOT NULL
);

-- paused_ms: since when it is given nothing; NULL while it flows. seen_ms: when it last had a member.
ALTER TABLE penstock_group ADD COLUMN paused_ms INTEGER;
ALTER TABLE penstock_group ADD COLUMN seen_ms INTEGER NOT NULL DEFAULT 0;

-- Limits of age, size and number of the kept records; NULL: as in the settings.
ALTER TABLE penstock_topic ADD COLUMN retention_ms INTEGER;
ALTER TABLE penstock_topic ADD COLUMN retention_bytes INTEGER;
ALTER TABLE penstock_topic ADD COLUMN retention_records INTEGER;

-- Copied from the log before retention deletes the record there; id is NULL until then.
ALTER TABLE penstock_lane_entry ADD COLUMN id TEXT;
ALTER TABLE penstock_lane_entry ADD COLUMN key BLOB;
ALTER TABLE penstock_lane_entry ADD COLUMN type TEXT;
ALTER TABLE penstock_lane_entry ADD COLUMN value BLOB;
ALTER TABLE penstock_lane_entry ADD COLUMN headers BLOB;
ALTER TABLE penstock_lane_entry ADD COLUMN timestamp_ms INTEGER;
ALTER TABLE penstock_lane_entry ADD COLUMN owner TEXT;

-- reset_ms: when its group was reset after the record became a dead letter.
ALTER TABLE penstock_dead ADD COLUMN owner TEXT;
ALTER TABLE penstock_dead ADD COLUMN reset_ms INTEGER;

-- By owner and by key, for cancel and erase. Rows without one cost nothing.
CREATE INDEX ix_penstock_staged_owner ON penstock_staged (owner) WHERE owner IS NOT NULL;
CREATE INDEX ix_penstock_scheduled_key ON penstock_scheduled (key_hash) WHERE key IS NOT NULL;
CREATE INDEX ix_penstock_scheduled_owner ON penstock_scheduled (owner) WHERE owner IS NOT NULL;
CREATE INDEX ix_penstock_log_owner ON penstock_log (owner) WHERE owner IS NOT NULL;
CREATE INDEX ix_penstock_lane_entry_owner ON penstock_lane_entry (owner) WHERE owner IS NOT NULL;
CREATE INDEX ix_penstock_dead_owner ON penstock_dead (owner) WHERE owner IS NOT NULL;
