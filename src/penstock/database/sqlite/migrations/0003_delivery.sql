-- Delivery and sharing: out-of-order progress of a group, waiting lanes, dead letters, and wanted owners.
UPDATE penstock_meta SET value = '3' WHERE name = 'schema_version';

-- version: raised by each settling, compared by the next. passed: a bitmap, in hex, of the done offsets from the cursor
-- on. crashes: owners lost without release, on the offset in trying once that is written.
ALTER TABLE penstock_cursor ADD COLUMN version INTEGER NOT NULL DEFAULT 0;
ALTER TABLE penstock_cursor ADD COLUMN passed TEXT NOT NULL DEFAULT '';
ALTER TABLE penstock_cursor ADD COLUMN owner_wanted TEXT;
ALTER TABLE penstock_cursor ADD COLUMN crashes INTEGER NOT NULL DEFAULT 0;
ALTER TABLE penstock_cursor ADD COLUMN trying INTEGER;
ALTER TABLE penstock_slot ADD COLUMN owner_wanted TEXT;

-- serves: a member's groups and roles, as JSON.
ALTER TABLE penstock_member ADD COLUMN serves TEXT NOT NULL DEFAULT '{}';

-- filters: the filters of the group's handlers, as JSON, the present one first, then earlier ones.
ALTER TABLE penstock_group ADD COLUMN filters TEXT NOT NULL DEFAULT '[]';
ALTER TABLE penstock_group ADD COLUMN filter_version INTEGER NOT NULL DEFAULT 0;

-- The domains shared among members: the slots, and each group. version: raised when rows change owners or should, so
-- that members check. members: those with a share in the last assignment.
CREATE TABLE penstock_domain (
    name    TEXT NOT NULL,
    version INTEGER NOT NULL,
    members TEXT NOT NULL,
    PRIMARY KEY (name)
) WITHOUT ROWID;

-- A waiting lane: for its retry, for its turn because it is slow, or (held) for an operator.
CREATE TABLE penstock_lane (
    group_id  INTEGER NOT NULL,
    topic_id  INTEGER NOT NULL,
    partition INTEGER NOT NULL,
    lane      TEXT NOT NULL,
    held      INTEGER NOT NULL,
    failures  INTEGER NOT NULL,
    due_ms    INTEGER NOT NULL,
    reason    TEXT NOT NULL,
    PRIMARY KEY (group_id, topic_id, partition, lane)
) WITHOUT ROWID;

-- The records of waiting lanes that the cursor has passed; offsets only.
CREATE TABLE penstock_lane_entry (
    group_id  INTEGER NOT NULL,
    topic_id  INTEGER NOT NULL,
    partition INTEGER NOT NULL,
    "offset"  INTEGER NOT NULL,
    lane      TEXT NOT NULL,
    PRIMARY KEY (group_id, topic_id, partition, "offset")
) WITHOUT ROWID;

-- Records given up, kept with their payload until requeued or discarded. holding: their lane waits for that.
CREATE TABLE penstock_dead (
    group_id     INTEGER NOT NULL,
    topic_id     INTEGER NOT NULL,
    partition    INTEGER NOT NULL,
    "offset"     INTEGER NOT NULL,
    lane         TEXT NOT NULL,
    holding      INTEGER NOT NULL,
    failures     INTEGER NOT NULL,
    reason       TEXT NOT NULL,
    died_ms      INTEGER NOT NULL,
    id           TEXT NOT NULL,
    key          BLOB,
    type         TEXT NOT NULL,
    value        BLOB,
    headers      BLOB,
    timestamp_ms INTEGER NOT NULL,
    PRIMARY KEY (group_id, topic_id, partition, "offset")
);
