-- The log, the owners of its slots, and its readers.
UPDATE penstock_meta SET value = '2' WHERE name = 'schema_version';

-- A named log. Everything else is keyed by its id, so a name given again is another topic.
CREATE TABLE penstock_topic (
    id          integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name        text COLLATE "C" NOT NULL UNIQUE,
    partitions  integer NOT NULL,
    partitioner text NOT NULL,
    created_ms  bigint NOT NULL
);

-- The bounds of a partition. The next offset is taken under this row's lock, which makes offsets dense.
CREATE TABLE penstock_head (
    topic_id     integer NOT NULL,
    partition    integer NOT NULL,
    start_offset bigint NOT NULL DEFAULT 0,
    next_offset  bigint NOT NULL DEFAULT 0,
    max_ms       bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (topic_id, partition)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.1, autovacuum_vacuum_threshold = 1000);

-- The records; an offset is assigned once, and a record never changes.
CREATE TABLE penstock_log (
    topic_id     integer NOT NULL,
    partition    integer NOT NULL,
    "offset"     bigint NOT NULL,
    id           text COLLATE "C" NOT NULL,
    key          bytea,
    type         text COLLATE "C" NOT NULL,
    value        bytea,
    headers      bytea,
    timestamp_ms bigint NOT NULL,
    owner        text COLLATE "C",
    PRIMARY KEY (topic_id, partition, "offset")
);

-- Time to offset, sparse: all records below this offset have a timestamp of at most max_ms.
CREATE TABLE penstock_log_time (
    topic_id  integer NOT NULL,
    partition integer NOT NULL,
    "offset"  bigint NOT NULL,
    max_ms    bigint NOT NULL,
    PRIMARY KEY (topic_id, partition, "offset")
);

-- One running process: one lease, one heartbeat.
CREATE TABLE penstock_member (
    id             text COLLATE "C" NOT NULL PRIMARY KEY,
    host           text NOT NULL,
    pid            bigint NOT NULL,
    started        text NOT NULL,
    joined_ms      bigint NOT NULL,
    lease_until_ms bigint NOT NULL
) WITH (fillfactor = 50);

-- The 256 units of sequencing. Every change of owner, including a release, raises the epoch.
CREATE TABLE penstock_slot (
    slot  smallint NOT NULL PRIMARY KEY,
    owner text COLLATE "C",
    epoch bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50);
INSERT INTO penstock_slot (slot) SELECT generate_series(0, 255);

-- A named reader.
CREATE TABLE penstock_group (
    id         integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name       text COLLATE "C" NOT NULL UNIQUE,
    created_ms bigint NOT NULL
);

-- The cursor of a group in a partition, and its owner. Settling compares epoch and the previous offset.
CREATE TABLE penstock_cursor (
    group_id  integer NOT NULL,
    topic_id  integer NOT NULL,
    partition integer NOT NULL,
    "offset"  bigint NOT NULL,
    owner     text COLLATE "C",
    epoch     bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (group_id, topic_id, partition)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.1, autovacuum_vacuum_threshold = 1000);
