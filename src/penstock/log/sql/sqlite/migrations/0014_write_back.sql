-- Writes in parts that are released as a whole: what Spark writes back to topics. Adds only.
UPDATE penstock_meta SET value = '14' WHERE name = 'schema_version';

-- A part of a write that other processes release as a whole, as a task of Spark does: its records wait in pending, under its
-- id for a producer's; it is negative, and those of Kafka's producers are not. touched_ms: when records were last added to it.
CREATE TABLE penstock_write_part (
    id          INTEGER NOT NULL PRIMARY KEY,
    application TEXT NOT NULL,
    epoch       INTEGER NOT NULL,
    touched_ms  INTEGER NOT NULL
) WITHOUT ROWID;

-- The last write of an application that was released, so that none is released twice. content: what it was made from, hashed.
CREATE TABLE penstock_write_epoch (
    application TEXT NOT NULL PRIMARY KEY,
    epoch       INTEGER NOT NULL,
    content     TEXT NOT NULL,
    released_ms INTEGER NOT NULL
) WITHOUT ROWID;
