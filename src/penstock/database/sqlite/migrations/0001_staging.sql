-- Staging: events are published into these tables. Times are milliseconds since 1970, UTC. A NULL key or value differs
-- from an empty one.

-- Facts about this store: schema version, the log's id and incarnation.
CREATE TABLE penstock_meta (
    name  TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL
) WITHOUT ROWID;
INSERT INTO penstock_meta (name, value)
VALUES ('schema_version', '1'), ('incarnation', '1'), ('log_id', lower(hex(randomblob(16))));

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
