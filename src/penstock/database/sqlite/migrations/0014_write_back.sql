-- Writes in parts that are released as a whole, for Spark's writes to topics. Adds only.
UPDATE penstock_meta SET value = '14' WHERE name = 'schema_version';

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
