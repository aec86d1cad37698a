-- Writes in parts that are released as a whole: what Spark writes back to topics. Adds only.
UPDATE penstock_meta SET value = '14' WHERE name = 'schema_version';

-- A part of a write that other processes release as a whole, as a task of Spark does: its records wait in pending, under its
-- id for a producer's; it is negative, and those of Kafka's producers are not. touched_ms: when records were last added to it.
CREATE TABLE penstock_write_part (
    id          bigint NOT NULL PRIMARY KEY,
    application text NOT NULL,
    epoch       bigint NOT NULL,
    touched_ms  bigint NOT NULL
);

-- The last write of an application that was released, so that none is released twice. content: what it was made from, hashed.
CREATE TABLE penstock_write_epoch (
    application text NOT NULL PRIMARY KEY,
    epoch       bigint NOT NULL,
    content     text NOT NULL,
    released_ms bigint NOT NULL
);
