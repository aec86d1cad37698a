-- Operations: tokens against duplicates, pauses, retention of topics, copies for lanes, owner tags everywhere, the
-- audit.
UPDATE penstock_meta SET value = '5' WHERE name = 'schema_version';

-- Events published with a token: the same token again, within its window, is the same event. token: 16 bytes of hash.
CREATE TABLE penstock_token (
    token      bytea NOT NULL PRIMARY KEY,
    id         text COLLATE "C" NOT NULL,
    created_ms bigint NOT NULL
);
CREATE INDEX ix_penstock_token_created ON penstock_token (created_ms);

-- The audit: actors and their operations on this store. subject: the target of the operation, as JSON; never a payload.
-- count: the number of affected items.
CREATE TABLE penstock_audit (
    id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at_ms   bigint NOT NULL,
    actor   text NOT NULL,
    action  text NOT NULL,
    subject text NOT NULL,
    count   bigint NOT NULL
);

-- paused_ms: since when it is given nothing; NULL while it flows. seen_ms: when it last had a member.
ALTER TABLE penstock_group ADD COLUMN paused_ms bigint;
ALTER TABLE penstock_group ADD COLUMN seen_ms bigint NOT NULL DEFAULT 0;

-- Limits of age, size and number of the kept records; NULL: as in the settings.
ALTER TABLE penstock_topic ADD COLUMN retention_ms bigint;
ALTER TABLE penstock_topic ADD COLUMN retention_bytes bigint;
ALTER TABLE penstock_topic ADD COLUMN retention_records bigint;

-- Copied from the log before retention deletes the record there; id is NULL until then.
ALTER TABLE penstock_lane_entry ADD COLUMN id text COLLATE "C";
ALTER TABLE penstock_lane_entry ADD COLUMN key bytea;
ALTER TABLE penstock_lane_entry ADD COLUMN type text COLLATE "C";
ALTER TABLE penstock_lane_entry ADD COLUMN value bytea;
ALTER TABLE penstock_lane_entry ADD COLUMN headers bytea;
ALTER TABLE penstock_lane_entry ADD COLUMN timestamp_ms bigint;
ALTER TABLE penstock_lane_entry ADD COLUMN owner text COLLATE "C";

-- reset_ms: when its group was reset after the record became a dead letter.
ALTER TABLE penstock_dead ADD COLUMN owner text COLLATE "C";
ALTER TABLE penstock_dead ADD COLUMN reset_ms bigint;

-- By owner and by key, for cancel and erase. Rows without one cost nothing.
CREATE INDEX ix_penstock_staged_owner ON penstock_staged (owner) WHERE owner IS NOT NULL;
CREATE INDEX ix_penstock_scheduled_key ON penstock_scheduled (key_hash) WHERE key IS NOT NULL;
CREATE INDEX ix_penstock_scheduled_owner ON penstock_scheduled (owner) WHERE owner IS NOT NULL;
CREATE INDEX ix_penstock_log_owner ON penstock_log (owner) WHERE owner IS NOT NULL;
CREATE INDEX ix_penstock_lane_entry_owner ON penstock_lane_entry (owner) WHERE owner IS NOT NULL;
CREATE INDEX ix_penstock_dead_owner ON penstock_dead (owner) WHERE owner IS NOT NULL;
