-- Delivery and sharing: what a group has done out of order, the lanes that wait, the dead letters, and who should own what.
UPDATE penstock_meta SET value = '3' WHERE name = 'schema_version';

-- version: raised by each settling, compared by the next. passed: a bitmap, in hex, of the offsets from the cursor on
-- that are done. crashes: owners lost without release, on the offset in trying once that is written.
ALTER TABLE penstock_cursor ADD COLUMN version INTEGER NOT NULL DEFAULT 0;
ALTER TABLE penstock_cursor ADD COLUMN passed TEXT NOT NULL DEFAULT '';
ALTER TABLE penstock_cursor ADD COLUMN owner_wanted TEXT;
ALTER TABLE penstock_cursor ADD COLUMN crashes INTEGER NOT NULL DEFAULT 0;
ALTER TABLE penstock_cursor ADD COLUMN trying INTEGER;
ALTER TABLE penstock_slot ADD COLUMN owner_wanted TEXT;

-- serves: what a member takes part in, as JSON.
ALTER TABLE penstock_member ADD COLUMN serves TEXT NOT NULL DEFAULT '{}';

-- filters: what the group's handlers match, as JSON, the present one first, then those it had before.
ALTER TABLE penstock_group ADD COLUMN filters TEXT NOT NULL DEFAULT '[]';
ALTER TABLE penstock_group ADD COLUMN filter_version INTEGER NOT NULL DEFAULT 0;

-- What is shared among members: the slots, and each group. version: raised when rows change hands or should, so that
-- members look. members: who was given a share the last time.
CREATE TABLE penstock_domain (
    name    TEXT NOT NULL,
    version INTEGER NOT NULL,
    members TEXT NOT NULL,
    PRIMARY KEY (name)
) WITHOUT ROWID;

-- A lane that waits: for its retry, for its turn because it is slow, or (held) for a person.
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
