-- Writes in parts that are released as a whole, for Spark's writes to topics. Adds only.
UPDATE penstock_meta SET value = '14' WHERE name = 'schema_version';

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
