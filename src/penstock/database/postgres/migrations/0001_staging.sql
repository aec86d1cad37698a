-- Staging: events are published into these tables. Times are milliseconds since 1970, UTC. A NULL key or value differs
-- from an empty one.

-- Facts about this store: schema version, the log's id and incarnation.
CREATE TABLE penstock_meta (
    name  text NOT NULL PRIMARY KEY,
    value text NOT NULL
);
INSERT INTO penstock_meta (name, value)
VALUES ('schema_version', '1'), ('incarnation', '1'), ('log_id', gen_random_uuid()::text);

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
