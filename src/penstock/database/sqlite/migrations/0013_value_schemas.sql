-- Schemas for the conversion of JSON to Protobuf and back. Adds only.
UPDATE penstock_meta SET value = '13' WHERE name = 'schema_version';

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
