-- Topics that grow, tokens per topic, members that say they are leaving, decisions that leave cursors
-- with their owners.
UPDATE penstock_meta SET value = '9' WHERE name = 'schema_version';

-- How often the topic has grown.
ALTER TABLE penstock_topic ADD COLUMN generation integer NOT NULL DEFAULT 0;

-- How many partitions a topic had before each of its growths, and where each of those ended: what came later stands in the
-- new map. generation: 0 is the first map.
CREATE TABLE penstock_generation (
    topic_id   integer NOT NULL,
    generation integer NOT NULL,
    partition  integer NOT NULL,
    end_offset bigint NOT NULL,
    PRIMARY KEY (topic_id, generation, partition)
);

-- A hash of what was published with the token; NULL for tokens of the version before.
ALTER TABLE penstock_token ADD COLUMN content bytea;

-- running, or stopping: it finishes what it has and takes nothing new.
ALTER TABLE penstock_member ADD COLUMN state text NOT NULL DEFAULT 'running';

-- How often others than the owner have changed its lanes, and the epoch of an owner that looks for that; those of the version
-- before do not.
ALTER TABLE penstock_cursor ADD COLUMN lanes_version bigint NOT NULL DEFAULT 0;
ALTER TABLE penstock_cursor ADD COLUMN lanes_epoch bigint NOT NULL DEFAULT -1;

-- Records that only the fallback of their handler completed: after how many failures, and why the last one. They go with the
-- records of the log.
CREATE TABLE penstock_fallback (
    group_id     integer NOT NULL,
    topic_id     integer NOT NULL,
    partition    integer NOT NULL,
    "offset"     bigint NOT NULL,
    failures     integer NOT NULL,
    reason       text NOT NULL,
    completed_ms bigint NOT NULL,
    PRIMARY KEY (group_id, topic_id, partition, "offset")
);

-- What it does now, as JSON: calls that take long, what they wait for, loops that fail; NULL: nothing to say.
ALTER TABLE penstock_member ADD COLUMN status text;
