-- Schemas for the conversion of JSON to Protobuf and back. Adds only.
UPDATE penstock_meta SET value = '13' WHERE name = 'schema_version';

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
