-- The broker: producers, transactions, groups of Kafka clients, brokers. Adds only.
UPDATE penstock_meta SET value = '11' WHERE name = 'schema_version';

-- The configs of a topic, set through the Kafka port, beyond its own columns.
CREATE TABLE penstock_topic_config (
    topic_id integer NOT NULL,
    name     text NOT NULL,
    value    text NOT NULL,
    PRIMARY KEY (topic_id, name)
);

-- Producers with an id from the Kafka port. transactional_id: NULL without transactions. state: empty, open, or the
-- last decision: committing and aborting (markers are to be written), committed, aborted. partitions: those of the
-- transaction, as JSON. started_ms: start of the transaction; used_ms: last use of the producer.
CREATE TABLE penstock_kafka_producer (
    id               bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    epoch            integer NOT NULL,
    transactional_id text UNIQUE,
    timeout_ms       integer NOT NULL,
    state            text NOT NULL DEFAULT 'empty',
    partitions       text NOT NULL DEFAULT '[]',
    started_ms       bigint,
    used_ms          bigint NOT NULL
);
CREATE INDEX ix_penstock_kafka_producer_started ON penstock_kafka_producer (started_ms) WHERE started_ms IS NOT NULL;

-- The last batches of a producer in a partition, as JSON, so that a repeated batch is added once. Read and written
-- under the lock of the head.
CREATE TABLE penstock_kafka_sequence (
    topic_id    integer NOT NULL,
    partition   integer NOT NULL,
    producer_id bigint NOT NULL,
    epoch       integer NOT NULL,
    batches     text NOT NULL,
    used_ms     bigint NOT NULL,
    PRIMARY KEY (topic_id, partition, producer_id)
);

-- Records of open transactions, invisible to readers. A commit moves them into the log in the order of seq, an abort
-- deletes them.
CREATE TABLE penstock_pending (
    producer_id  bigint NOT NULL,
    seq          bigint GENERATED ALWAYS AS IDENTITY,
    topic_id     integer NOT NULL,
    partition    integer NOT NULL,
    id           text NOT NULL,
    key          bytea,
    type         text NOT NULL,
    value        bytea,
    headers      bytea,
    timestamp_ms bigint NOT NULL,
    PRIMARY KEY (producer_id, seq)
);

-- Offsets that groups get when an open transaction commits.
CREATE TABLE penstock_pending_offset (
    producer_id bigint NOT NULL,
    group_id    integer NOT NULL,
    topic_id    integer NOT NULL,
    partition   integer NOT NULL,
    "offset"    bigint NOT NULL,
    metadata    text,
    PRIMARY KEY (producer_id, group_id, topic_id, partition)
);

-- Groups of Kafka clients. members: of the present generation, with their assignments, as JSON. owner: the coordinating
-- member; every change of owner raises the epoch, and writes are conditional on it.
CREATE TABLE penstock_kafka_group (
    group_id      integer NOT NULL PRIMARY KEY,
    owner         text NOT NULL,
    epoch         bigint NOT NULL,
    generation    integer NOT NULL DEFAULT 0,
    protocol_type text NOT NULL DEFAULT '',
    protocol      text NOT NULL DEFAULT '',
    leader        text NOT NULL DEFAULT '',
    members       text NOT NULL DEFAULT '[]'
);

-- Members that serve the Kafka port, and their addresses. An address keeps its number.
CREATE TABLE penstock_broker (
    node_id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    host    text NOT NULL,
    port    integer NOT NULL,
    member  text NOT NULL,
    UNIQUE (host, port)
);
