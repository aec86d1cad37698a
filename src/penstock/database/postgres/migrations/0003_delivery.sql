-- Delivery and sharing: out-of-order progress of a group, waiting lanes, dead letters, and wanted owners.
UPDATE penstock_meta SET value = '3' WHERE name = 'schema_version';

-- version: raised by each settling, compared by the next. passed: a bitmap, in hex, of the done offsets from the cursor
-- on. crashes: owners lost without release, on the offset in trying once that is written.
ALTER TABLE penstock_cursor ADD COLUMN version bigint NOT NULL DEFAULT 0;
ALTER TABLE penstock_cursor ADD COLUMN passed text NOT NULL DEFAULT '';
ALTER TABLE penstock_cursor ADD COLUMN owner_wanted text COLLATE "C";
ALTER TABLE penstock_cursor ADD COLUMN crashes smallint NOT NULL DEFAULT 0;
ALTER TABLE penstock_cursor ADD COLUMN trying bigint;
ALTER TABLE penstock_slot ADD COLUMN owner_wanted text COLLATE "C";

-- serves: a member's groups and roles, as JSON.
ALTER TABLE penstock_member ADD COLUMN serves text NOT NULL DEFAULT '{}';

-- filters: the filters of the group's handlers, as JSON, the present one first, then earlier ones.
ALTER TABLE penstock_group ADD COLUMN filters text NOT NULL DEFAULT '[]';
ALTER TABLE penstock_group ADD COLUMN filter_version bigint NOT NULL DEFAULT 0;

-- The domains shared among members: the slots, and each group. version: raised when rows change owners or should, so
-- that members check. members: those with a share in the last assignment.
CREATE TABLE penstock_domain (
    name    text COLLATE "C" NOT NULL,
    version bigint NOT NULL,
    members text NOT NULL,
    PRIMARY KEY (name)
) WITH (fillfactor = 50);

-- A waiting lane: for its retry, for its turn because it is slow, or (held) for an operator.
CREATE TABLE penstock_lane (
    group_id  integer NOT NULL,
    topic_id  integer NOT NULL,
    partition integer NOT NULL,
    lane      text COLLATE "C" NOT NULL,
    held      boolean NOT NULL,
    failures  integer NOT NULL,
    due_ms    bigint NOT NULL,
    reason    text NOT NULL,
    PRIMARY KEY (group_id, topic_id, partition, lane)
);

-- The records of waiting lanes that the cursor has passed; offsets only.
CREATE TABLE penstock_lane_entry (
    group_id  integer NOT NULL,
    topic_id  integer NOT NULL,
    partition integer NOT NULL,
    "offset"  bigint NOT NULL,
    lane      text COLLATE "C" NOT NULL,
    PRIMARY KEY (group_id, topic_id, partition, "offset")
);

-- Records given up, kept with their payload until requeued or discarded. holding: their lane waits for that.
CREATE TABLE penstock_dead (
    group_id     integer NOT NULL,
    topic_id     integer NOT NULL,
    partition    integer NOT NULL,
    "offset"     bigint NOT NULL,
    lane         text COLLATE "C" NOT NULL,
    holding      boolean NOT NULL,
    failures     integer NOT NULL,
    reason       text NOT NULL,
    died_ms      bigint NOT NULL,
    id           text COLLATE "C" NOT NULL,
    key          bytea,
    type         text COLLATE "C" NOT NULL,
    value        bytea,
    headers      bytea,
    timestamp_ms bigint NOT NULL,
    PRIMARY KEY (group_id, topic_id, partition, "offset")
);
