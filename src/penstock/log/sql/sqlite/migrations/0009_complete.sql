-- Topics that grow, tokens per topic, members that say they are leaving.
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

-- What it does now, as JSON: calls that take long, what they wait for, loops that fail; NULL: nothing to say.
ALTER TABLE penstock_member ADD COLUMN status TEXT;
