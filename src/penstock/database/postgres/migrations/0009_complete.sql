-- Growing topics, tokens per topic, members that announce their stop, decisions that leave cursors with their owners.
UPDATE penstock_meta SET value = '9' WHERE name = 'schema_version';

-- Number of the topic's growths.
ALTER TABLE penstock_topic ADD COLUMN generation integer NOT NULL DEFAULT 0;

-- The partitions of a topic before each of its growths, and their ends: later records are placed by the new map.
-- generation: 0 is the first map.
CREATE TABLE penstock_generation (
    topic_id   integer NOT NULL,
    generation integer NOT NULL,
    partition  integer NOT NULL,
    end_offset bigint NOT NULL,
    PRIMARY KEY (topic_id, generation, partition)
);

-- A hash of the event published with the token; NULL for tokens of the previous version.
ALTER TABLE penstock_token ADD COLUMN content bytea;

-- running, or stopping: it finishes its work and takes no more.
ALTER TABLE penstock_member ADD COLUMN state text NOT NULL DEFAULT 'running';

-- Number of changes of its lanes by others than the owner, and the epoch of an owner that checks this; owners of the
-- previous version do not.
ALTER TABLE penstock_cursor ADD COLUMN lanes_version bigint NOT NULL DEFAULT 0;
ALTER TABLE penstock_cursor ADD COLUMN lanes_epoch bigint NOT NULL DEFAULT -1;

-- Records completed by the fallback of their handler: the number of failures, and the reason of the last one. They are
-- deleted together with the records of the log.
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

-- Its present activity, as JSON: slow calls, pending calls, failing loops; NULL: nothing to report.
ALTER TABLE penstock_member ADD COLUMN status text;
