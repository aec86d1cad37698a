-- Every table of Penstock in PostgreSQL, as it stands after all migrations.
-- Times are milliseconds since 1970, UTC. A NULL key or value is not an empty one.

-- Facts about this store: schema version, the log's id and incarnation.
CREATE TABLE penstock_meta (
    name  text NOT NULL PRIMARY KEY,
    value text NOT NULL
);
INSERT INTO penstock_meta (name, value)
VALUES ('schema_version', '2'), ('incarnation', '1'), ('log_id', gen_random_uuid()::text);

-- Events that committed and have no offset yet. seq is the order of staging: CACHE 1, or sessions would hand
-- out numbers in another order than they were asked for.
CREATE SEQUENCE penstock_staged_seq AS bigint CACHE 1;
CREATE TABLE penstock_staged (
    slot         smallint NOT NULL,
    seq          bigint NOT NULL DEFAULT nextval('penstock_staged_seq'),
    key_hash     integer NOT NULL,
    topic        text COLLATE "C" NOT NULL,
    id           text COLLATE "C" NOT NULL,
    key          bytea,
    type         text COLLATE "C" NOT NULL,
    value        bytea,
    headers      bytea,
    timestamp_ms bigint NOT NULL,
    owner        text COLLATE "C",
    PRIMARY KEY (slot, seq)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 5000);
ALTER SEQUENCE penstock_staged_seq OWNED BY penstock_staged.seq;

-- Events for the future, apart from the hot table: they cost a poll nothing until they are due.
CREATE TABLE penstock_scheduled (
    seq          bigint NOT NULL DEFAULT nextval('penstock_staged_seq') PRIMARY KEY,
    due_ms       bigint NOT NULL,
    slot         smallint NOT NULL,
    key_hash     integer NOT NULL,
    topic        text COLLATE "C" NOT NULL,
    id           text COLLATE "C" NOT NULL,
    key          bytea,
    type         text COLLATE "C" NOT NULL,
    value        bytea,
    headers      bytea,
    timestamp_ms bigint NOT NULL,
    owner        text COLLATE "C"
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 5000);
CREATE INDEX ix_penstock_scheduled_due ON penstock_scheduled (due_ms, seq);
CREATE INDEX ix_penstock_scheduled_id ON penstock_scheduled (id);

-- A named log. Everything else is keyed by its id, so a name given again is another topic.
CREATE TABLE penstock_topic (
    id          integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name        text COLLATE "C" NOT NULL UNIQUE,
    partitions  integer NOT NULL,
    partitioner text NOT NULL,
    created_ms  bigint NOT NULL
);

-- Where a partition begins and ends. The next offset is taken under this row's lock: that makes offsets dense.
CREATE TABLE penstock_head (
    topic_id     integer NOT NULL,
    partition    integer NOT NULL,
    start_offset bigint NOT NULL DEFAULT 0,
    next_offset  bigint NOT NULL DEFAULT 0,
    max_ms       bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (topic_id, partition)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.1, autovacuum_vacuum_threshold = 1000);

-- The records: given an offset once, never changed.
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

-- The 256 units of sequencing. Every change of owner, release included, raises the epoch.
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

-- Where a group is in a partition, and who may move it. Settling compares epoch and the previous offset.
CREATE TABLE penstock_cursor (
    group_id  integer NOT NULL,
    topic_id  integer NOT NULL,
    partition integer NOT NULL,
    "offset"  bigint NOT NULL,
    owner     text COLLATE "C",
    epoch     bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (group_id, topic_id, partition)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.1, autovacuum_vacuum_threshold = 1000);
