-- Every table of Penstock in PostgreSQL. Times are milliseconds since 1970, UTC. A NULL key or value differs from an
-- empty one.

-- Facts about this store: schema version, the oldest version whose code can use it, the log's id and incarnation.
CREATE TABLE penstock_meta (
    name  text NOT NULL PRIMARY KEY,
    value text NOT NULL
);
INSERT INTO penstock_meta (name, value)
VALUES ('schema_version', '17'), ('usable_from', '17'), ('incarnation', '1'), ('log_id', gen_random_uuid()::text);

-- Committed events without an offset yet. seq is the order of staging: CACHE 1, because sessions with cached numbers
-- would use them out of order.
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
CREATE INDEX ix_penstock_staged_owner ON penstock_staged (owner) WHERE owner IS NOT NULL;

-- Scheduled events, apart from the hot table: they cost a poll nothing until they are due.
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
CREATE INDEX ix_penstock_scheduled_key ON penstock_scheduled (key_hash) WHERE key IS NOT NULL;
CREATE INDEX ix_penstock_scheduled_owner ON penstock_scheduled (owner) WHERE owner IS NOT NULL;

-- A named log. All other tables refer to its id, so a reused name is another topic. retention_*: limits of age, size
-- and number of the kept records; NULL: as in the settings. generation: number of its growths.
CREATE TABLE penstock_topic (
    id                integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name              text COLLATE "C" NOT NULL UNIQUE,
    partitions        integer NOT NULL,
    partitioner       text NOT NULL,
    created_ms        bigint NOT NULL,
    retention_ms      bigint,
    retention_bytes   bigint,
    retention_records bigint,
    generation        integer NOT NULL DEFAULT 0
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

-- The partitions of a topic before each of its growths, and their ends: later records are placed by the new map.
-- generation: 0 is the first map.
CREATE TABLE penstock_generation (
    topic_id   integer NOT NULL,
    generation integer NOT NULL,
    partition  integer NOT NULL,
    end_offset bigint NOT NULL,
    PRIMARY KEY (topic_id, generation, partition)
);

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
CREATE INDEX ix_penstock_log_owner ON penstock_log (owner) WHERE owner IS NOT NULL;

-- Time to offset, sparse: all records below this offset have a timestamp of at most max_ms.
CREATE TABLE penstock_log_time (
    topic_id  integer NOT NULL,
    partition integer NOT NULL,
    "offset"  bigint NOT NULL,
    max_ms    bigint NOT NULL,
    PRIMARY KEY (topic_id, partition, "offset")
);

-- The offset from which on a reader that is not a group needs a partition; retention deletes nothing from there on.
CREATE TABLE penstock_hold (
    reader    text COLLATE "C" NOT NULL,
    topic_id  integer NOT NULL,
    partition integer NOT NULL,
    "offset"  bigint NOT NULL,
    PRIMARY KEY (topic_id, reader, partition)
);

-- The last batch of a producer. sequence: the number of its first record. positions, ids: of its records, as JSON.
CREATE TABLE penstock_producer (
    id        text COLLATE "C" NOT NULL PRIMARY KEY,
    epoch     bigint NOT NULL,
    sequence  bigint NOT NULL,
    topic_id  integer NOT NULL,
    positions text NOT NULL,
    ids       text NOT NULL DEFAULT '[]'
);

-- One running process: one lease, one heartbeat. serves: its groups and roles, as JSON. dedicated: the process runs
-- only a worker, so a record may have caused its death. died_ms: when its end became known. state: running, or stopping
-- (it finishes its work and takes no more). status: its present activity, as JSON; NULL: nothing to report.
-- host_lease_until_ms: end of the lease by its host's clock, in milliseconds since the host's start.
CREATE TABLE penstock_member (
    id             text COLLATE "C" NOT NULL PRIMARY KEY,
    host           text NOT NULL,
    pid            bigint NOT NULL,
    started        text NOT NULL,
    joined_ms      bigint NOT NULL,
    lease_until_ms bigint NOT NULL,
    serves         text NOT NULL DEFAULT '{}',
    dedicated      boolean NOT NULL DEFAULT false,
    died_ms        bigint,
    state          text NOT NULL DEFAULT 'running',
    status         text,
    host_lease_until_ms bigint
) WITH (fillfactor = 50);

-- The 256 units of sequencing. Every change of owner, including a release, raises the epoch.
CREATE TABLE penstock_slot (
    slot         smallint NOT NULL PRIMARY KEY,
    owner        text COLLATE "C",
    epoch        bigint NOT NULL DEFAULT 0,
    owner_wanted text COLLATE "C"
) WITH (fillfactor = 50);
INSERT INTO penstock_slot (slot) SELECT generate_series(0, 255);

-- A named reader. filters: the filters of its handlers, as JSON, the present one first, then earlier ones. paused_ms:
-- start of its pause; NULL while it runs. seen_ms: when it last had a member. kind: handler (functions of a worker) or
-- client (of a protocol). holds: whether retention waits for it.
CREATE TABLE penstock_group (
    id             integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name           text COLLATE "C" NOT NULL UNIQUE,
    created_ms     bigint NOT NULL,
    filters        text NOT NULL DEFAULT '[]',
    filter_version bigint NOT NULL DEFAULT 0,
    paused_ms      bigint,
    seen_ms        bigint NOT NULL DEFAULT 0,
    kind           text NOT NULL DEFAULT 'handler',
    holds          boolean NOT NULL DEFAULT true
);

-- The cursor of a group in a partition, and its owner. Settling compares epoch and version, and raises the version.
-- passed: a bitmap, in hex, of the done offsets from the cursor on. crashes: owners lost without release, since all
-- records that they may have handed out were settled. metadata, leader_epoch: from a client's last commit.
-- trial: the records suspected of killing their process, as JSON. lanes_version: number of changes of its lanes by others
-- than the owner. handed_to: the owner or earlier owners may have handed out records below it, and none at or above;
-- kept_back: exceptions below it that were not handed out, a bitmap, in hex, from the last of them down.
CREATE TABLE penstock_cursor (
    group_id     integer NOT NULL,
    topic_id     integer NOT NULL,
    partition    integer NOT NULL,
    "offset"     bigint NOT NULL,
    owner        text COLLATE "C",
    epoch        bigint NOT NULL DEFAULT 0,
    version      bigint NOT NULL DEFAULT 0,
    passed       text NOT NULL DEFAULT '',
    owner_wanted text COLLATE "C",
    crashes      smallint NOT NULL DEFAULT 0,
    metadata     text,
    trial        text NOT NULL DEFAULT '',
    lanes_version bigint NOT NULL DEFAULT 0,
    leader_epoch integer NOT NULL DEFAULT -1,
    handed_to    bigint NOT NULL DEFAULT 0,
    kept_back    text NOT NULL DEFAULT '',
    PRIMARY KEY (group_id, topic_id, partition)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.1, autovacuum_vacuum_threshold = 1000);

-- The domains shared among members: the slots, and each group. version: raised when rows change owners or should, so
-- that members check. members: those with a share in the last assignment.
CREATE TABLE penstock_domain (
    name    text COLLATE "C" NOT NULL,
    version bigint NOT NULL,
    members text NOT NULL,
    PRIMARY KEY (name)
) WITH (fillfactor = 50);

-- A waiting lane. lane: its key, or the bytes of the key in hex; empty for a lane of all keys. whole: a lane of all keys
-- of the partition. late: of records that were passed over before the group had a handler for them. alone: the offset of
-- the only record in it, apart from the others of its key; -1: none. The same columns are in the tables below. state:
-- retrying, snoozed, requeued, last, moved, slow or held (until an operator decides). reason: for people. wait_ms: its
-- wait at the time of writing; a reader waits no longer than that.
CREATE TABLE penstock_lane (
    group_id  integer NOT NULL,
    topic_id  integer NOT NULL,
    partition integer NOT NULL,
    lane      text COLLATE "C" NOT NULL,
    whole     boolean NOT NULL,
    late      boolean NOT NULL,
    alone     bigint NOT NULL,
    failures  integer NOT NULL,
    due_ms    bigint NOT NULL,
    reason    text NOT NULL,
    state     text NOT NULL DEFAULT 'retrying',
    wait_ms   bigint,
    PRIMARY KEY (group_id, topic_id, partition, lane, whole, late, alone)
);

-- The records of waiting lanes that the cursor has passed; offsets only, until retention copies a record here before
-- deleting it from the log.
CREATE TABLE penstock_lane_entry (
    group_id     integer NOT NULL,
    topic_id     integer NOT NULL,
    partition    integer NOT NULL,
    "offset"     bigint NOT NULL,
    lane         text COLLATE "C" NOT NULL,
    whole        boolean NOT NULL,
    late         boolean NOT NULL,
    alone        bigint NOT NULL,
    id           text COLLATE "C",
    key          bytea,
    type         text COLLATE "C",
    value        bytea,
    headers      bytea,
    timestamp_ms bigint,
    owner        text COLLATE "C",
    PRIMARY KEY (group_id, topic_id, partition, "offset")
);
CREATE INDEX ix_penstock_lane_entry_owner ON penstock_lane_entry (owner) WHERE owner IS NOT NULL;

-- The records that a group has skipped because it has no handler for their type: the first offset, the offset after the
-- last, and an approximate count. until_offset: the group's cursor when it got such a handler (the highest number until
-- then), and holes: the offsets before it that were not passed, as JSON. wanted_ms: records from this time on are to be
-- delivered late. again: 1 if they may have been handed out before.
CREATE TABLE penstock_note (
    group_id     integer NOT NULL,
    topic_id     integer NOT NULL,
    partition    integer NOT NULL,
    type         text COLLATE "C" NOT NULL,
    until_offset bigint NOT NULL,
    first_offset bigint NOT NULL,
    end_offset   bigint NOT NULL,
    records      bigint NOT NULL,
    holes        text NOT NULL DEFAULT '',
    wanted_ms    bigint,
    again        integer NOT NULL DEFAULT 0,
    PRIMARY KEY (group_id, topic_id, partition, type, until_offset)
);

-- Records completed by the fallback of their handler: the number of failures, and the reason of the last one. They are
-- deleted together with the records of the log.
CREATE TABLE penstock_fallback (
    group_id     integer NOT NULL,
    topic_id     integer NOT NULL,
    partition    integer NOT NULL,
    "offset"     bigint NOT NULL,
    failures     integer NOT NULL,
    reason       text NOT NULL,
    completed_ms bigint NOT NULL,
    PRIMARY KEY (group_id, topic_id, partition, "offset")
);

-- Dead letters, kept with their payload until requeued or discarded. holding: their lane waits for that. reset_ms: when
-- their group was reset after that.
CREATE TABLE penstock_dead (
    group_id     integer NOT NULL,
    topic_id     integer NOT NULL,
    partition    integer NOT NULL,
    "offset"     bigint NOT NULL,
    lane         text COLLATE "C" NOT NULL,
    whole        boolean NOT NULL,
    late         boolean NOT NULL,
    alone        bigint NOT NULL,
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
    owner        text COLLATE "C",
    reset_ms     bigint,
    PRIMARY KEY (group_id, topic_id, partition, "offset")
);
CREATE INDEX ix_penstock_dead_died ON penstock_dead (died_ms, group_id, topic_id, partition, "offset");
CREATE INDEX ix_penstock_dead_owner ON penstock_dead (owner) WHERE owner IS NOT NULL;

-- Events published with a token: the same token again, in its topic and within its window, is the same event. token: 16
-- bytes of hash, in one row of the topic and, for the topic that uses the token first, in one of the store. content: a
-- hash of the published event; NULL in a mark, whose token is the id of an event that a listener waits for.
CREATE TABLE penstock_token (
    token      bytea NOT NULL PRIMARY KEY,
    id         text COLLATE "C" NOT NULL,
    created_ms bigint NOT NULL,
    content    bytea
);
CREATE INDEX ix_penstock_token_created ON penstock_token (created_ms);

-- Schedules of periodic events. definition: as JSON; version and since_ms: number and time of its last change; retired:
-- fingerprints of replaced definitions. next_ms: the next tick. error: of the function that makes the event.
CREATE TABLE penstock_periodic (
    name       text PRIMARY KEY,
    definition text NOT NULL,
    version    integer NOT NULL DEFAULT 1,
    retired    text NOT NULL DEFAULT '[]',
    since_ms   bigint NOT NULL,
    last_ms    bigint,
    next_ms    bigint NOT NULL,
    paused     boolean NOT NULL DEFAULT false,
    failures   integer NOT NULL DEFAULT 0,
    error      text,
    failed_ms  bigint
);

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
    leader_epoch integer NOT NULL DEFAULT -1,
    PRIMARY KEY (producer_id, group_id, topic_id, partition)
);

-- A part of a write that is released as a whole, such as the part of a Spark task. Its records wait in pending, with
-- its id as the producer id; it is negative, unlike those of Kafka's producers. touched_ms: when records were last
-- added.
CREATE TABLE penstock_write_part (
    id          bigint NOT NULL PRIMARY KEY,
    application text NOT NULL,
    epoch       bigint NOT NULL,
    touched_ms  bigint NOT NULL
);

-- The last released write of an application, so that none is released twice. content: a hash of its source.
CREATE TABLE penstock_write_epoch (
    application text NOT NULL PRIMARY KEY,
    epoch       bigint NOT NULL,
    content     text NOT NULL,
    released_ms bigint NOT NULL
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

-- Access rules, each as its line (access/rule.py); rules from a file are not here. added_by: the actor who added it.
CREATE TABLE penstock_access_rule (
    rule     text NOT NULL PRIMARY KEY,
    added_by text NOT NULL,
    added_ms bigint NOT NULL
);

-- The Protobuf schemas of a topic's values, for events of a type, or of every type if that is ''. message: the name of
-- the Protobuf message; descriptors: the FileDescriptorSet that describes it.
CREATE TABLE penstock_value_schema (
    topic       text NOT NULL,
    type        text NOT NULL,
    message     text NOT NULL,
    descriptors bytea NOT NULL,
    added_by    text NOT NULL,
    added_ms    bigint NOT NULL,
    PRIMARY KEY (topic, type)
);

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

-- Bytes as JSON, NULL if they are not JSON: a value of the log may be anything.
CREATE FUNCTION penstock_json(data bytea) RETURNS json LANGUAGE plpgsql IMMUTABLE STRICT AS '
BEGIN
    RETURN convert_from(data, ''UTF8'')::json;
EXCEPTION WHEN OTHERS THEN
    RETURN NULL;
END';

-- Bytes as text, or as hexadecimal digits if they are not text.
CREATE FUNCTION penstock_text(data bytea) RETURNS text LANGUAGE plpgsql IMMUTABLE STRICT AS '
BEGIN
    RETURN convert_from(data, ''UTF8'');
EXCEPTION WHEN OTHERS THEN
    RETURN ''\x'' || encode(data, ''hex'');
END';

-- Headers in Kafka's framing as JSON, NULL if they are not valid: a count, then lengths and bytes of names and values;
-- a number has seven bits per byte and is doubled, 1 is NULL. The last one of a repeated name wins.
CREATE FUNCTION penstock_headers(data bytea) RETURNS json LANGUAGE plpgsql IMMUTABLE STRICT AS '
DECLARE
    place integer := 0; part integer := 0; shift integer := 0; number bigint := 0; remaining bigint := 1;
    name text; value text; found jsonb := ''{}'';
BEGIN
    WHILE remaining > 0 LOOP
        number := number | ((get_byte(data, place) & 127)::bigint << shift);
        place := place + 1;
        IF get_byte(data, place - 1) > 127 THEN
            shift := shift + 7;
            CONTINUE;
        END IF;
        IF part = 0 THEN
            remaining := number >> 1;
        ELSE
            value := CASE WHEN number <> 1 THEN penstock_text(substring(data FROM place + 1 FOR (number >> 1)::integer)) END;
            place := place + (number >> 1);
        END IF;
        IF part = 1 THEN
            name := value;
        ELSIF part = 2 THEN
            found := found || jsonb_build_object(name, value);
            remaining := remaining - 1;
        END IF;
        part := CASE WHEN part = 1 THEN 2 ELSE 1 END;
        number := 0;
        shift := 0;
    END LOOP;
    RETURN CASE WHEN place = length(data) THEN found::json END;
EXCEPTION WHEN OTHERS THEN
    RETURN NULL;
END';

-- Every event of this store, for SQL users: scheduled, staged and logged. name: as in listings. value and headers are
-- JSON; a value that is not JSON is NULL here, and its bytes are in data. action and entity: the change and its row,
-- for an event declared on a model.
CREATE VIEW penstock_events AS
SELECT e.state, e.topic, e.partition, e."offset", e.id,
       'event:' || e.type || ':' || coalesce(lpad(e.partition::text, 4, '0'), '-') || ':'
       || overlay('0000000000000' PLACING coalesce(e.due_ms, e.timestamp_ms)::text
                  FROM greatest(1, 14 - length(coalesce(e.due_ms, e.timestamp_ms)::text))) || ':' || e.id AS name,
       e.type, penstock_text(e.key) AS key, penstock_json(e.data) AS value,
       CASE WHEN e.headers IS NULL THEN '{}'::json ELSE penstock_headers(e.headers) END AS headers,
       penstock_headers(e.headers)->>'action' AS action, penstock_headers(e.headers)->>'entity' AS entity,
       CASE WHEN e.timestamp_ms BETWEEN 0 AND 253402300799999
            THEN to_timestamp(e.timestamp_ms / 1000) + mod(e.timestamp_ms, 1000) * interval '1 millisecond' END AS timestamp,
       to_timestamp(e.due_ms / 1000) + mod(e.due_ms, 1000) * interval '1 millisecond' AS due,
       e.owner, e.data
FROM (
    SELECT 'logged' AS state, t.name AS topic, l.partition, l."offset", l.id, l.type, l.key, l.value AS data, l.headers,
           l.timestamp_ms, NULL::bigint AS due_ms, l.owner
    FROM penstock_log l JOIN penstock_topic t ON t.id = l.topic_id
    UNION ALL
    SELECT 'staged', topic, NULL, NULL, id, type, key, value, headers, timestamp_ms, NULL, owner FROM penstock_staged
    UNION ALL
    SELECT 'scheduled', topic, NULL, NULL, id, type, key, value, headers, timestamp_ms, due_ms, owner
    FROM penstock_scheduled
) e;
