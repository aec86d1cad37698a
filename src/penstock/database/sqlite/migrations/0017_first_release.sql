-- Every table of Penstock in SQLite. Times are milliseconds since 1970, UTC. A NULL key or value differs from an
-- empty one.

-- Facts about this store: schema version, the oldest version whose code can use it, the log's id and incarnation.
CREATE TABLE penstock_meta (
    name  TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL
) WITHOUT ROWID;
INSERT INTO penstock_meta (name, value)
VALUES ('schema_version', '17'), ('usable_from', '17'), ('incarnation', '1'), ('log_id', lower(hex(randomblob(16))));

-- Committed events without an offset yet. seq is the order of staging; SQLite has one writer at a time, so it is also
-- the order of commits.
CREATE TABLE penstock_staged (
    seq          INTEGER PRIMARY KEY AUTOINCREMENT,
    slot         INTEGER NOT NULL,
    key_hash     INTEGER NOT NULL,
    topic        TEXT NOT NULL,
    id           TEXT NOT NULL,
    key          BLOB,
    type         TEXT NOT NULL,
    value        BLOB,
    headers      BLOB,
    timestamp_ms INTEGER NOT NULL,
    owner        TEXT
);
CREATE INDEX ix_penstock_staged_owner ON penstock_staged (owner) WHERE owner IS NOT NULL;

-- Scheduled events, apart from the hot table: they cost a poll nothing until they are due.
CREATE TABLE penstock_scheduled (
    seq          INTEGER PRIMARY KEY AUTOINCREMENT,
    due_ms       INTEGER NOT NULL,
    slot         INTEGER NOT NULL,
    key_hash     INTEGER NOT NULL,
    topic        TEXT NOT NULL,
    id           TEXT NOT NULL,
    key          BLOB,
    type         TEXT NOT NULL,
    value        BLOB,
    headers      BLOB,
    timestamp_ms INTEGER NOT NULL,
    owner        TEXT
);
CREATE INDEX ix_penstock_scheduled_due ON penstock_scheduled (due_ms, seq);
CREATE INDEX ix_penstock_scheduled_id ON penstock_scheduled (id);
CREATE INDEX ix_penstock_scheduled_key ON penstock_scheduled (key_hash) WHERE key IS NOT NULL;
CREATE INDEX ix_penstock_scheduled_owner ON penstock_scheduled (owner) WHERE owner IS NOT NULL;

-- A named log. All other tables refer to its id, so a reused name is another topic. retention_*: limits of age, size
-- and number of the kept records; NULL: as in the settings. generation: number of its growths.
CREATE TABLE penstock_topic (
    id                INTEGER PRIMARY KEY AUTOINCREMENT,
    name              TEXT NOT NULL UNIQUE,
    partitions        INTEGER NOT NULL,
    partitioner       TEXT NOT NULL,
    created_ms        INTEGER NOT NULL,
    retention_ms      INTEGER,
    retention_bytes   INTEGER,
    retention_records INTEGER,
    generation        INTEGER NOT NULL DEFAULT 0
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

-- The partitions of a topic before each of its growths, and their ends: later records are placed by the new map.
-- generation: 0 is the first map.
CREATE TABLE penstock_generation (
    topic_id   INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    partition  INTEGER NOT NULL,
    end_offset INTEGER NOT NULL,
    PRIMARY KEY (topic_id, generation, partition)
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
CREATE INDEX ix_penstock_log_owner ON penstock_log (owner) WHERE owner IS NOT NULL;

-- Time to offset, sparse: all records below this offset have a timestamp of at most max_ms.
CREATE TABLE penstock_log_time (
    topic_id  INTEGER NOT NULL,
    partition INTEGER NOT NULL,
    "offset"  INTEGER NOT NULL,
    max_ms    INTEGER NOT NULL,
    PRIMARY KEY (topic_id, partition, "offset")
) WITHOUT ROWID;

-- The offset from which on a reader that is not a group needs a partition; retention deletes nothing from there on.
CREATE TABLE penstock_hold (
    reader    TEXT NOT NULL,
    topic_id  INTEGER NOT NULL,
    partition INTEGER NOT NULL,
    "offset"  INTEGER NOT NULL,
    PRIMARY KEY (topic_id, reader, partition)
) WITHOUT ROWID;

-- The last batch of a producer. sequence: the number of its first record. positions, ids: of its records, as JSON.
CREATE TABLE penstock_producer (
    id        TEXT NOT NULL PRIMARY KEY,
    epoch     INTEGER NOT NULL,
    sequence  INTEGER NOT NULL,
    topic_id  INTEGER NOT NULL,
    positions TEXT NOT NULL,
    ids       TEXT NOT NULL DEFAULT '[]'
) WITHOUT ROWID;

-- One running process: one lease, one heartbeat. serves: its groups and roles, as JSON. dedicated: the process runs
-- only a worker, so a record may have caused its death. died_ms: when its end became known. state: running, or stopping
-- (it finishes its work and takes no more). status: its present activity, as JSON; NULL: nothing to report.
-- host_lease_until_ms: end of the lease by its host's clock, in milliseconds since the host's start.
CREATE TABLE penstock_member (
    id             TEXT NOT NULL PRIMARY KEY,
    host           TEXT NOT NULL,
    pid            INTEGER NOT NULL,
    started        TEXT NOT NULL,
    joined_ms      INTEGER NOT NULL,
    lease_until_ms INTEGER NOT NULL,
    serves         TEXT NOT NULL DEFAULT '{}',
    dedicated      INTEGER NOT NULL DEFAULT 0,
    died_ms        INTEGER,
    state          TEXT NOT NULL DEFAULT 'running',
    status         TEXT,
    host_lease_until_ms INTEGER
) WITHOUT ROWID;

-- The 256 units of sequencing. Every change of owner, including a release, raises the epoch.
CREATE TABLE penstock_slot (
    slot         INTEGER NOT NULL PRIMARY KEY,
    owner        TEXT,
    epoch        INTEGER NOT NULL DEFAULT 0,
    owner_wanted TEXT
);
WITH RECURSIVE numbers (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM numbers WHERE n < 255)
INSERT INTO penstock_slot (slot) SELECT n FROM numbers;

-- A named reader. filters: the filters of its handlers, as JSON, the present one first, then earlier ones. paused_ms:
-- start of its pause; NULL while it runs. seen_ms: when it last had a member. kind: handler (functions of a worker) or
-- client (of a protocol). holds: whether retention waits for it.
CREATE TABLE penstock_group (
    id             INTEGER PRIMARY KEY AUTOINCREMENT,
    name           TEXT NOT NULL UNIQUE,
    created_ms     INTEGER NOT NULL,
    filters        TEXT NOT NULL DEFAULT '[]',
    filter_version INTEGER NOT NULL DEFAULT 0,
    paused_ms      INTEGER,
    seen_ms        INTEGER NOT NULL DEFAULT 0,
    kind           TEXT NOT NULL DEFAULT 'handler',
    holds          INTEGER NOT NULL DEFAULT 1
);

-- The cursor of a group in a partition, and its owner. Settling compares epoch and version, and raises the version.
-- passed: a bitmap, in hex, of the done offsets from the cursor on. crashes: owners lost without release, since all
-- records that they may have handed out were settled. metadata, leader_epoch: from a client's last commit.
-- trial: the records suspected of killing their process, as JSON. lanes_version: number of changes of its lanes by others
-- than the owner. handed_to: the owner or earlier owners may have handed out records below it, and none at or above;
-- kept_back: exceptions below it that were not handed out, a bitmap, in hex, from the last of them down.
CREATE TABLE penstock_cursor (
    group_id     INTEGER NOT NULL,
    topic_id     INTEGER NOT NULL,
    partition    INTEGER NOT NULL,
    "offset"     INTEGER NOT NULL,
    owner        TEXT,
    epoch        INTEGER NOT NULL DEFAULT 0,
    version      INTEGER NOT NULL DEFAULT 0,
    passed       TEXT NOT NULL DEFAULT '',
    owner_wanted TEXT,
    crashes      INTEGER NOT NULL DEFAULT 0,
    metadata     TEXT,
    trial        TEXT NOT NULL DEFAULT '',
    lanes_version INTEGER NOT NULL DEFAULT 0,
    leader_epoch INTEGER NOT NULL DEFAULT -1,
    handed_to    INTEGER NOT NULL DEFAULT 0,
    kept_back    TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (group_id, topic_id, partition)
) WITHOUT ROWID;

-- The domains shared among members: the slots, and each group. version: raised when rows change owners or should, so
-- that members check. members: those with a share in the last assignment.
CREATE TABLE penstock_domain (
    name    TEXT NOT NULL,
    version INTEGER NOT NULL,
    members TEXT NOT NULL,
    PRIMARY KEY (name)
) WITHOUT ROWID;

-- A waiting lane. lane: its key, or the bytes of the key in hex; empty for a lane of all keys. whole: a lane of all keys
-- of the partition. late: of records that were passed over before the group had a handler for them. alone: the offset of
-- the only record in it, apart from the others of its key; -1: none. The same columns are in the tables below. state:
-- retrying, snoozed, requeued, last, moved, slow or held (until an operator decides). reason: for people. wait_ms: its
-- wait at the time of writing; a reader waits no longer than that.
CREATE TABLE penstock_lane (
    group_id  INTEGER NOT NULL,
    topic_id  INTEGER NOT NULL,
    partition INTEGER NOT NULL,
    lane      TEXT NOT NULL,
    whole     INTEGER NOT NULL,
    late      INTEGER NOT NULL,
    alone     INTEGER NOT NULL,
    failures  INTEGER NOT NULL,
    due_ms    INTEGER NOT NULL,
    reason    TEXT NOT NULL,
    state     TEXT NOT NULL DEFAULT 'retrying',
    wait_ms   INTEGER,
    PRIMARY KEY (group_id, topic_id, partition, lane, whole, late, alone)
) WITHOUT ROWID;

-- The records of waiting lanes that the cursor has passed; offsets only, until retention copies a record here before
-- deleting it from the log.
CREATE TABLE penstock_lane_entry (
    group_id     INTEGER NOT NULL,
    topic_id     INTEGER NOT NULL,
    partition    INTEGER NOT NULL,
    "offset"     INTEGER NOT NULL,
    lane         TEXT NOT NULL,
    whole        INTEGER NOT NULL,
    late         INTEGER NOT NULL,
    alone        INTEGER NOT NULL,
    id           TEXT,
    key          BLOB,
    type         TEXT,
    value        BLOB,
    headers      BLOB,
    timestamp_ms INTEGER,
    owner        TEXT,
    PRIMARY KEY (group_id, topic_id, partition, "offset")
) WITHOUT ROWID;
CREATE INDEX ix_penstock_lane_entry_owner ON penstock_lane_entry (owner) WHERE owner IS NOT NULL;

-- The records that a group has skipped because it has no handler for their type: the first offset, the offset after the
-- last, and an approximate count. until_offset: the group's cursor when it got such a handler (the highest number until
-- then), and holes: the offsets before it that were not passed, as JSON. wanted_ms: records from this time on are to be
-- delivered late. again: 1 if they may have been handed out before.
CREATE TABLE penstock_note (
    group_id     INTEGER NOT NULL,
    topic_id     INTEGER NOT NULL,
    partition    INTEGER NOT NULL,
    type         TEXT NOT NULL,
    until_offset INTEGER NOT NULL,
    first_offset INTEGER NOT NULL,
    end_offset   INTEGER NOT NULL,
    records      INTEGER NOT NULL,
    holes        TEXT NOT NULL DEFAULT '',
    wanted_ms    INTEGER,
    again        INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (group_id, topic_id, partition, type, until_offset)
) WITHOUT ROWID;

-- Records completed by the fallback of their handler: the number of failures, and the reason of the last one. They are
-- deleted together with the records of the log.
CREATE TABLE penstock_fallback (
    group_id     INTEGER NOT NULL,
    topic_id     INTEGER NOT NULL,
    partition    INTEGER NOT NULL,
    "offset"     INTEGER NOT NULL,
    failures     INTEGER NOT NULL,
    reason       TEXT NOT NULL,
    completed_ms INTEGER NOT NULL,
    PRIMARY KEY (group_id, topic_id, partition, "offset")
) WITHOUT ROWID;

-- Dead letters, kept with their payload until requeued or discarded. holding: their lane waits for that. reset_ms: when
-- their group was reset after that.
CREATE TABLE penstock_dead (
    group_id     INTEGER NOT NULL,
    topic_id     INTEGER NOT NULL,
    partition    INTEGER NOT NULL,
    "offset"     INTEGER NOT NULL,
    lane         TEXT NOT NULL,
    whole        INTEGER NOT NULL,
    late         INTEGER NOT NULL,
    alone        INTEGER NOT NULL,
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
    owner        TEXT,
    reset_ms     INTEGER,
    PRIMARY KEY (group_id, topic_id, partition, "offset")
);
CREATE INDEX ix_penstock_dead_died ON penstock_dead (died_ms, group_id, topic_id, partition, "offset");
CREATE INDEX ix_penstock_dead_owner ON penstock_dead (owner) WHERE owner IS NOT NULL;

-- Events published with a token: the same token again, in its topic and within its window, is the same event. token: 16
-- bytes of hash, in one row of the topic and, for the topic that uses the token first, in one of the store. content: a
-- hash of the published event; NULL in a mark, whose token is the id of an event that a listener waits for.
CREATE TABLE penstock_token (
    token      BLOB NOT NULL PRIMARY KEY,
    id         TEXT NOT NULL,
    created_ms INTEGER NOT NULL,
    content    BLOB
) WITHOUT ROWID;
CREATE INDEX ix_penstock_token_created ON penstock_token (created_ms);

-- Schedules of periodic events. definition: as JSON; version and since_ms: number and time of its last change; retired:
-- fingerprints of replaced definitions. next_ms: the next tick. error: of the function that makes the event.
CREATE TABLE penstock_periodic (
    name       TEXT PRIMARY KEY,
    definition TEXT NOT NULL,
    version    INTEGER NOT NULL DEFAULT 1,
    retired    TEXT NOT NULL DEFAULT '[]',
    since_ms   INTEGER NOT NULL,
    last_ms    INTEGER,
    next_ms    INTEGER NOT NULL,
    paused     INTEGER NOT NULL DEFAULT 0,
    failures   INTEGER NOT NULL DEFAULT 0,
    error      TEXT,
    failed_ms  INTEGER
) WITHOUT ROWID;

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
    leader_epoch INTEGER NOT NULL DEFAULT -1,
    PRIMARY KEY (producer_id, group_id, topic_id, partition)
) WITHOUT ROWID;

-- A part of a write that is released as a whole, such as the part of a Spark task. Its records wait in pending, with
-- its id as the producer id; it is negative, unlike those of Kafka's producers. touched_ms: when records were last
-- added.
CREATE TABLE penstock_write_part (
    id          INTEGER NOT NULL PRIMARY KEY,
    application TEXT NOT NULL,
    epoch       INTEGER NOT NULL,
    touched_ms  INTEGER NOT NULL
) WITHOUT ROWID;

-- The last released write of an application, so that none is released twice. content: a hash of its source.
CREATE TABLE penstock_write_epoch (
    application TEXT NOT NULL PRIMARY KEY,
    epoch       INTEGER NOT NULL,
    content     TEXT NOT NULL,
    released_ms INTEGER NOT NULL
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

-- Access rules, each as its line (access/rule.py); rules from a file are not here. added_by: the actor who added it.
CREATE TABLE penstock_access_rule (
    rule     TEXT NOT NULL PRIMARY KEY,
    added_by TEXT NOT NULL,
    added_ms INTEGER NOT NULL
) WITHOUT ROWID;

-- The Protobuf schemas of a topic's values, for events of a type, or of every type if that is ''. message: the name of
-- the Protobuf message; descriptors: the FileDescriptorSet that describes it.
CREATE TABLE penstock_value_schema (
    topic       TEXT NOT NULL,
    type        TEXT NOT NULL,
    message     TEXT NOT NULL,
    descriptors BLOB NOT NULL,
    added_by    TEXT NOT NULL,
    added_ms    INTEGER NOT NULL,
    PRIMARY KEY (topic, type)
) WITHOUT ROWID;

-- The audit: actors and their operations on this store. subject: the target of the operation, as JSON; never a payload.
-- count: the number of affected items.
CREATE TABLE penstock_audit (
    id      INTEGER PRIMARY KEY AUTOINCREMENT,
    at_ms   INTEGER NOT NULL,
    actor   TEXT NOT NULL,
    action  TEXT NOT NULL,
    subject TEXT NOT NULL,
    count   INTEGER NOT NULL
);

-- Every event of this store, for SQL users: scheduled, staged and logged. name: as in listings. value and headers are
-- JSON; a value that is not JSON is NULL here, and its bytes are in data. action and entity: the change and its row,
-- for an event declared on a model. Headers are read from Kafka's framing: part 0 is their count, 1 the length of a
-- name, 2 that of a value; each is a number of seven bits a byte, doubled, or 1 for NULL; byte is the next to be read.
-- A header's value that is not valid text is shown as hexadecimal digits: converted to characters and back, it differs.
CREATE VIEW penstock_events AS
SELECT state, topic, partition, "offset", id, name, type, key, value, headers,
       json_extract(headers, '$.action') AS action, json_extract(headers, '$.entity') AS entity,
       timestamp, due, owner, data
FROM (
    SELECT e.state, e.topic, e.partition, e."offset", e.id,
           'event:' || e.type || ':' || coalesce(substr('0000', length(e.partition) + 1) || e.partition, '-') || ':'
           || substr('0000000000000', length(coalesce(e.due_ms, e.timestamp_ms)) + 1) || coalesce(e.due_ms, e.timestamp_ms)
           || ':' || e.id AS name,
           e.type, CAST(e.key AS TEXT) AS key,
           CASE WHEN json_valid(CAST(e.data AS TEXT)) THEN CAST(e.data AS TEXT) END AS value,
           CASE WHEN e.headers IS NULL THEN '{}' ELSE (
               WITH RECURSIVE walk (at, byte, part, number, shift, remaining, name, value) AS (
                   SELECT 1, 16 * instr('123456789ABCDEF', substr(hex(substr(e.headers, 1, 1)), 1, 1))
                          + instr('123456789ABCDEF', substr(hex(substr(e.headers, 1, 1)), 2, 1)), 0, 0, 0, NULL, NULL, NULL
                   UNION ALL
                   SELECT w.at + 1 + CASE WHEN w.byte > 127 OR w.part = 0 THEN 0
                                          ELSE (w.number | ((w.byte & 127) << w.shift)) >> 1 END,
                          16 * instr('123456789ABCDEF', substr(hex(substr(e.headers, w.at + 1
                              + CASE WHEN w.byte > 127 OR w.part = 0 THEN 0
                                     ELSE (w.number | ((w.byte & 127) << w.shift)) >> 1 END, 1)), 1, 1))
                          + instr('123456789ABCDEF', substr(hex(substr(e.headers, w.at + 1
                              + CASE WHEN w.byte > 127 OR w.part = 0 THEN 0
                                     ELSE (w.number | ((w.byte & 127) << w.shift)) >> 1 END, 1)), 2, 1)),
                          CASE WHEN w.byte > 127 THEN w.part WHEN w.part = 1 THEN 2 ELSE 1 END,
                          CASE WHEN w.byte > 127 THEN w.number | ((w.byte & 127) << w.shift) ELSE 0 END,
                          CASE WHEN w.byte > 127 THEN w.shift + 7 ELSE 0 END,
                          CASE WHEN w.byte > 127 OR w.part = 1 THEN w.remaining WHEN w.part = 2 THEN w.remaining - 1
                               ELSE (w.number | ((w.byte & 127) << w.shift)) >> 1 END,
                          CASE WHEN w.part = 2 THEN w.name WHEN w.part = 1 AND w.byte < 128
                               THEN substr(e.headers, w.at + 1, (w.number | ((w.byte & 127) << w.shift)) >> 1) END,
                          CASE WHEN w.part = 2 AND w.byte < 128 AND (w.number | ((w.byte & 127) << w.shift)) <> 1
                               THEN substr(e.headers, w.at + 1, (w.number | ((w.byte & 127) << w.shift)) >> 1) END
                   FROM walk w
                   WHERE w.at <= length(e.headers) AND w.shift < 35 AND coalesce(w.remaining, 1) > 0
               )
               SELECT CASE WHEN max(last.at) = length(e.headers) + 1 AND min(last.remaining) = 0
                   THEN json_group_object(CAST(last.name AS TEXT), CASE
                       WHEN last.value IS NULL OR CAST(last.value AS TEXT) NOT GLOB '*[^ -~]*'
                         OR CAST(last.value AS TEXT) = (
                           WITH RECURSIVE again (at, text) AS (
                               SELECT 1, ''
                               UNION ALL
                               SELECT a.at + 1, a.text || char(unicode(substr(CAST(last.value AS TEXT), a.at, 1)))
                               FROM again a WHERE a.at <= length(CAST(last.value AS TEXT))
                           )
                           SELECT a.text FROM again a ORDER BY a.at DESC LIMIT 1)
                       THEN CAST(last.value AS TEXT) ELSE '\x' || lower(hex(last.value)) END)
                   FILTER (WHERE last.name IS NOT NULL) END
               FROM (
                   SELECT CASE WHEN w.part = 1 THEN w.name END AS name, w.value, w.remaining, max(w.at) AS at
                   FROM walk w GROUP BY 1) last) END AS headers,
           CASE WHEN e.timestamp_ms BETWEEN 0 AND 253402300799999
                THEN replace(datetime(e.timestamp_ms / 1000, 'unixepoch'), ' ', 'T')
                || '.' || substr(1000 + e.timestamp_ms - e.timestamp_ms / 1000 * 1000, 2) || 'Z' END AS timestamp,
           replace(datetime(e.due_ms / 1000, 'unixepoch'), ' ', 'T')
           || '.' || substr(1000 + e.due_ms - e.due_ms / 1000 * 1000, 2) || 'Z' AS due,
           e.owner, e.data
    FROM (
        SELECT 'logged' AS state, t.name AS topic, l.partition, l."offset", l.id, l.type, l.key, l.value AS data, l.headers,
               l.timestamp_ms, NULL AS due_ms, l.owner
        FROM penstock_log l JOIN penstock_topic t ON t.id = l.topic_id
        UNION ALL
        SELECT 'staged', topic, NULL, NULL, id, type, key, value, headers, timestamp_ms, NULL, owner FROM penstock_staged
        UNION ALL
        SELECT 'scheduled', topic, NULL, NULL, id, type, key, value, headers, timestamp_ms, due_ms, owner
        FROM penstock_scheduled
    ) e
);
