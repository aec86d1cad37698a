-- The broker: producers, transactions, groups of Kafka clients, brokers. Adds only.
UPDATE penstock_meta SET value = '11' WHERE name = 'schema_version';

-- The configs of a topic, set through the Kafka port, beyond its own columns.
CREATE TABLE penstock_topic_config (
    topic_id INTEGER NOT NULL,
    name     TEXT NOT NULL,
    value    TEXT NOT NULL,
    PRIMARY KEY (topic_id, name)
) WITHOUT ROWID;

-- Producers with an id from the Kafka port. transactional_id: NULL without transactions. state: empty, open, or the
-- last decision: committing and aborting (markers are to be written), committed, aborted. partitions: those of the
-- transaction, as JSON. started_ms: start of the transaction; used_ms: last use of the producer.
CREATE TABLE penstock_kafka_producer (
    id               INTEGER PRIMARY KEY AUTOINCREMENT,
    epoch            INTEGER NOT NULL,
    transactional_id TEXT UNIQUE,
    timeout_ms       INTEGER NOT NULL,
    state            TEXT NOT NULL DEFAULT 'empty',
    partitions       TEXT NOT NULL DEFAULT '[]',
    started_ms       INTEGER,
    used_ms          INTEGER NOT NULL
);
CREATE INDEX ix_penstock_kafka_producer_started ON penstock_kafka_producer (started_ms) WHERE started_ms IS NOT NULL;

-- The last batches of a producer in a partition, as JSON, so that a repeated batch is added once. Read and written
-- under the lock of the head.
CREATE TABLE penstock_kafka_sequence (
    topic_id    INTEGER NOT NULL,
    partition   INTEGER NOT NULL,
    producer_id INTEGER NOT NULL,
    epoch       INTEGER NOT NULL,
    batches     TEXT NOT NULL,
    used_ms     INTEGER NOT NULL,
    PRIMARY KEY (topic_id, partition, producer_id)
) WITHOUT ROWID;

-- Records of open transactions, invisible to readers. A commit moves them into the log in the order of seq, an abort
-- deletes them.
CREATE TABLE penstock_pending (
    producer_id  INTEGER NOT NULL,
    seq          INTEGER PRIMARY KEY AUTOINCREMENT,
    topic_id     INTEGER NOT NULL,
    partition    INTEGER NOT NULL,
    id           TEXT NOT NULL,
    key          BLOB,
    type         TEXT NOT NULL,
    value        BLOB,
    headers      BLOB,
    timestamp_ms INTEGER NOT NULL
);
CREATE INDEX ix_penstock_pending_producer ON penstock_pending (producer_id, seq);

-- Offsets that groups get when an open transaction commits.
CREATE TABLE penstock_pending_offset (
    producer_id INTEGER NOT NULL,
    group_id    INTEGER NOT NULL,
    topic_id    INTEGER NOT NULL,
    partition   INTEGER NOT NULL,
    "offset"    INTEGER NOT NULL,
    metadata    TEXT,
    PRIMARY KEY (producer_id, group_id, topic_id, partition)
) WITHOUT ROWID;

-- Groups of Kafka clients. members: of the present generation, with their assignments, as JSON. owner: the coordinating
-- member; every change of owner raises the epoch, and writes are conditional on it.
CREATE TABLE penstock_kafka_group (
    group_id      INTEGER NOT NULL PRIMARY KEY,
    owner         TEXT NOT NULL,
    epoch         INTEGER NOT NULL,
    generation    INTEGER NOT NULL DEFAULT 0,
    protocol_type TEXT NOT NULL DEFAULT '',
    protocol      TEXT NOT NULL DEFAULT '',
    leader        TEXT NOT NULL DEFAULT '',
    members       TEXT NOT NULL DEFAULT '[]'
) WITHOUT ROWID;

-- Members that serve the Kafka port, and their addresses. An address keeps its number.
CREATE TABLE penstock_broker (
    node_id INTEGER PRIMARY KEY AUTOINCREMENT,
    host    TEXT NOT NULL,
    port    INTEGER NOT NULL,
    member  TEXT NOT NULL,
    UNIQUE (host, port)
);
