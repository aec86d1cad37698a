-- Delivery and sharing: what a group has done out of order, the lanes that wait, the dead letters, and who should own what.
UPDATE penstock_meta SET value = '3' WHERE name = 'schema_version';

-- version: raised by each settling, compared by the next. passed: a bitmap, in hex, of the offsets from the cursor on
-- that are done. crashes: owners lost without release, on the offset in trying once that is written.
ALTER TABLE penstock_cursor ADD COLUMN version bigint NOT NULL DEFAULT 0;
ALTER TABLE penstock_cursor ADD COLUMN passed text NOT NULL DEFAULT '';
ALTER TABLE penstock_cursor ADD COLUMN owner_wanted text COLLATE "C";
ALTER TABLE penstock_cursor ADD COLUMN crashes smallint NOT NULL DEFAULT 0;
ALTER TABLE penstock_cursor ADD COLUMN trying bigint;
ALTER TABLE penstock_slot ADD COLUMN owner_wanted text COLLATE "C";

-- serves: what a member takes part in, as JSON.
ALTER TABLE penstock_member ADD COLUMN serves text NOT NULL DEFAULT '{}';

-- filters: what the group's handlers match, as JSON, the present one first, then those it had before.
ALTER TABLE penstock_group ADD COLUMN filters text NOT NULL DEFAULT '[]';
ALTER TABLE penstock_group ADD COLUMN filter_version bigint NOT NULL DEFAULT 0;

-- What is shared among members: the slots, and each group. version: raised when rows change hands or should, so that
-- members look. members: who was given a share the last time.
CREATE TABLE penstock_domain (
    name    text COLLATE "C" NOT NULL,
    version bigint NOT NULL,
    members text NOT NULL,
    PRIMARY KEY (name)
) WITH (fillfactor = 50);

-- A lane that waits: for its retry, for its turn because it is slow, or (held) for a person.
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
