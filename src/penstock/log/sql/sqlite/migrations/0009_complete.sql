-- Topics that grow, tokens per topic, members that say they are leaving, decisions that leave cursors
-- with their owners.
UPDATE penstock_meta SET value = '9' WHERE name = 'schema_version';

-- How often the topic has grown.
ALTER TABLE penstock_topic ADD COLUMN generation INTEGER NOT NULL DEFAULT 0;

-- How many partitions a topic had before each of its growths, and where each of those ended: what came later stands in the
-- new map. generation: 0 is the first map.
CREATE TABLE penstock_generation (
    topic_id   INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    partition  INTEGER NOT NULL,
    end_offset INTEGER NOT NULL,
    PRIMARY KEY (topic_id, generation, partition)
) WITHOUT ROWID;

-- A hash of what was published with the token; NULL for tokens of the version before.
ALTER TABLE penstock_token ADD COLUMN content BLOB;

-- running, or stopping: it finishes what it has and takes nothing new.
ALTER TABLE penstock_member ADD COLUMN state TEXT NOT NULL DEFAULT 'running';

-- How often others than the owner have changed its lanes, and the epoch of an owner that looks for that; those of the version
-- before do not.
ALTER TABLE penstock_cursor ADD COLUMN lanes_version INTEGER NOT NULL DEFAULT 0;
ALTER TABLE penstock_cursor ADD COLUMN lanes_epoch INTEGER NOT NULL DEFAULT -1;

-- Records that only the fallback of their handler completed: after how many failures, and why the last one. They go with the
-- records of the log.
CREATE TABLE penstock_fallback (
    group_id     INTEGER NOT NULL,
    topic_id     INTEGER NOT NULL,
    partition    INTEGER NOT NULL,
    "offset"     INTEGER NOT NULL,
    failures     INTEGER NOT NULL,
    reason       TEXT NOT NULL,
    completed_ms INTEGER NOT NULL,
    PRIMARY KEY (group_id, topic_id, partition, "offset")
) WITHOUT ROWID;

-- What it does now, as JSON: calls that take long, what they wait for, loops that fail; NULL: nothing to say.
ALTER TABLE penstock_member ADD COLUMN status TEXT;
