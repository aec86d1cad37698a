-- The store: readers that hold records back, producers whose batches are added once, kinds of groups, commit metadata.
UPDATE penstock_meta SET value = '7' WHERE name = 'schema_version';

-- From where on a reader that is not a group needs a partition; retention deletes nothing from there on.
CREATE TABLE penstock_hold (
    reader    TEXT NOT NULL,
    topic_id  INTEGER NOT NULL,
    partition INTEGER NOT NULL,
    "offset"  INTEGER NOT NULL,
    PRIMARY KEY (topic_id, reader, partition)
) WITHOUT ROWID;

-- The last batch of a producer: sequence is the number of its first record, positions are where its records stand, as JSON.
CREATE TABLE penstock_producer (
    id        TEXT NOT NULL PRIMARY KEY,
    epoch     INTEGER NOT NULL,
    sequence  INTEGER NOT NULL,
    topic_id  INTEGER NOT NULL,
    positions TEXT NOT NULL
) WITHOUT ROWID;

-- kind: handler (functions of a worker) or client (of a protocol). holds: whether retention waits for it.
ALTER TABLE penstock_group ADD COLUMN kind TEXT NOT NULL DEFAULT 'handler';
ALTER TABLE penstock_group ADD COLUMN holds INTEGER NOT NULL DEFAULT 1;

-- What a client said with its last commit.
ALTER TABLE penstock_cursor ADD COLUMN metadata TEXT;
