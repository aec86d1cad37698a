-- The log, the owners of its slots, and its readers.
UPDATE penstock_meta SET value = '2' WHERE name = 'schema_version';

-- A named log. Everything else is keyed by its id, so a name given again is another topic.
CREATE TABLE penstock_topic (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    name        TEXT NOT NULL UNIQUE,
    partitions  INTEGER NOT NULL,
    partitioner TEXT NOT NULL,
    created_ms  INTEGER NOT NULL
);

-- The bounds of a partition. The next offset is taken under this row's lock, which makes offsets dense.
CREATE TABLE penstock_head (
    topic_id     INTEGER NOT NULL,
    partition    INTEGER NOT NULL,
    start_offset INTEGER NOT NULL DEFAULT 0,
    next_offset  INTEGER NOT NULL DEFAULT 0,
    max_ms       INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (topic_id, partition)
) WITHOUT ROWID;

-- The records; an offset is assigned once, and a record never changes.
CREATE TABLE penstock_log (
    topic_id     INTEGER NOT NULL,
    partition    INTEGER NOT NULL,
    "offset"     INTEGER NOT NULL,
    id           TEXT NOT NULL,
    key          BLOB,
    type         TEXT NOT NULL,
    value        BLOB,
    headers      BLOB,
    timestamp_ms INTEGER NOT NULL,
    owner        TEXT,
    PRIMARY KEY (topic_id, partition, "offset")
);

-- Time to offset, sparse: all records below this offset have a timestamp of at most max_ms.
CREATE TABLE penstock_log_time (
    topic_id  INTEGER NOT NULL,
    partition INTEGER NOT NULL,
    "offset"  INTEGER NOT NULL,
    max_ms    INTEGER NOT NULL,
    PRIMARY KEY (topic_id, partition, "offset")
) WITHOUT ROWID;

-- One running process: one lease, one heartbeat.
CREATE TABLE penstock_member (
    id             TEXT NOT NULL PRIMARY KEY,
    host           TEXT NOT NULL,
    pid            INTEGER NOT NULL,
    started        TEXT NOT NULL,
    joined_ms      INTEGER NOT NULL,
    lease_until_ms INTEGER NOT NULL
) WITHOUT ROWID;

-- The 256 units of sequencing. Every change of owner, including a release, raises the epoch.
CREATE TABLE penstock_slot (
    slot  INTEGER NOT NULL PRIMARY KEY,
    owner TEXT,
    epoch INTEGER NOT NULL DEFAULT 0
);
WITH RECURSIVE numbers (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM numbers WHERE n < 255)
INSERT INTO penstock_slot (slot) SELECT n FROM numbers;

-- A named reader.
CREATE TABLE penstock_group (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    name       TEXT NOT NULL UNIQUE,
    created_ms INTEGER NOT NULL
);

-- The cursor of a group in a partition, and its owner. Settling compares epoch and the previous offset.
CREATE TABLE penstock_cursor (
    group_id  INTEGER NOT NULL,
    topic_id  INTEGER NOT NULL,
    partition INTEGER NOT NULL,
    "offset"  INTEGER NOT NULL,
    owner     TEXT,
    epoch     INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (group_id, topic_id, partition)
) WITHOUT ROWID;
