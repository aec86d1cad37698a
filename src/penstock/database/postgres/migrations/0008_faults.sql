-- Faults: records in flight when a process died, records skipped by a group, and the versions that may use these
-- tables.
UPDATE penstock_meta SET value = '8' WHERE name = 'schema_version';

-- The oldest schema version whose code can still use these tables: each migration that removes or changes something raises it.
INSERT INTO penstock_meta (name, value) VALUES ('usable_from', '7');

-- dedicated: its process runs only a worker, so a record may have caused its death. died_ms: when the end of the
-- process became known; an expired lease proves nothing.
ALTER TABLE penstock_member ADD COLUMN dedicated boolean NOT NULL DEFAULT false;
ALTER TABLE penstock_member ADD COLUMN died_ms bigint;

-- The ids of the records of a producer's last batch, as JSON: records deleted by retention still count as appended.
ALTER TABLE penstock_producer ADD COLUMN ids text NOT NULL DEFAULT '[]';

-- The records suspected of killing their process, as JSON; empty: none.
ALTER TABLE penstock_cursor ADD COLUMN trial text NOT NULL DEFAULT '';

-- A lane's wait at the time of writing: a reader waits no longer than that, whatever the clocks show.
ALTER TABLE penstock_lane ADD COLUMN wait_ms bigint;

-- The records that a group has skipped because it has no handler for their type: the first offset, the offset after the
-- last, and an approximate count. until_offset: the group's cursor when it got such a handler (the highest number until
-- then), and holes: the offsets before it that were not passed, as JSON. wanted_ms: records from this time on are to be
-- delivered late. again: 1 if they may have been handed out before.
CREATE TABLE penstock_note (
    group_id     integer NOT NULL,
    topic_id     integer NOT NULL,
    partition    integer NOT NULL,
    type         text COLLATE "C" NOT NULL,
    until_offset bigint NOT NULL,
    first_offset bigint NOT NULL,
    end_offset   bigint NOT NULL,
    records      bigint NOT NULL,
    holes        text NOT NULL DEFAULT '',
    wanted_ms    bigint,
    again        integer NOT NULL DEFAULT 0,
    PRIMARY KEY (group_id, topic_id, partition, type, until_offset)
);
