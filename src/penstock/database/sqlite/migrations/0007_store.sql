-- The store: readers that hold records back, producers whose batches are added once, kinds of groups, commit metadata.
UPDATE penstock_meta SET value = '7' WHERE name = 'schema_version';

-- The offset from which on a reader that is not a group needs a partition; retention deletes nothing from there on.
CREATE TABLE penstock_hold (
    reader    TEXT NOT NULL,
    topic_id  INTEGER NOT NULL,
    partition INTEGER NOT NULL,
    "offset"  INTEGER NOT NULL,
    PRIMARY KEY (topic_id, reader, partition)
) WITHOUT ROWID;

-- The last batch of a producer. sequence: the number of its first record. positions: of its records, as JSON.
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

-- Metadata of a client's last commit.
ALTER TABLE penstock_cursor ADD COLUMN metadata TEXT;

-- The state of a waiting lane: retrying, snoozed, requeued, last, slow or held; its reason is for people. Until now the
-- reason decided, so a failure named slow was taken for a slow lane without failures. The column held stays for a
-- release: workers of the previous version still read and write it.
ALTER TABLE penstock_lane ADD COLUMN state TEXT NOT NULL DEFAULT 'retrying';
UPDATE penstock_lane SET state = CASE
    WHEN held THEN 'held'
    WHEN failures = 0 AND due_ms = 0 AND reason = 'slow' THEN 'slow'
    WHEN failures = 0 AND due_ms = 0 AND reason = 'requeued' THEN 'requeued'
    WHEN failures = 0 AND due_ms = 0 AND reason = 'requeued, behind what waits of its key' THEN 'last'
    WHEN reason = 'snoozed' THEN 'snoozed'
    ELSE 'retrying' END;
