-- Schemas by which doors turn JSON into Protobuf and back. Adds only.
UPDATE penstock_meta SET value = '13' WHERE name = 'schema_version';

-- How values of a topic are written as JSON and as Protobuf, for events of a type, or of every type where that is ''.
-- message: the name of the Protobuf message; descriptors: the FileDescriptorSet that describes it.
CREATE TABLE penstock_value_schema (
    topic       text NOT NULL,
    type        text NOT NULL,
    message     text NOT NULL,
    descriptors bytea NOT NULL,
    added_by    text NOT NULL,
    added_ms    bigint NOT NULL,
    PRIMARY KEY (topic, type)
);
