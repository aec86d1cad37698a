-- Faults: which records were at work when a process died, what a group has passed over, who may use these tables.
UPDATE penstock_meta SET value = '8' WHERE name = 'schema_version';

-- The oldest schema version whose code can still use these tables: each migration that removes or changes something raises it.
INSERT INTO penstock_meta (name, value) VALUES ('usable_from', '7');

-- dedicated: its process does nothing but this, so a death may be a record's doing. died_ms: since when it is known that the
-- process has ended; a lease that ran out proves nothing.
ALTER TABLE penstock_member ADD COLUMN dedicated boolean NOT NULL DEFAULT false;
ALTER TABLE penstock_member ADD COLUMN died_ms bigint;

-- The ids of the records of a producer's last batch, as JSON: what retention deletes is still known to be in the log.
ALTER TABLE penstock_producer ADD COLUMN ids text NOT NULL DEFAULT '[]';

-- What is known of records that may have killed their process, as JSON; empty: nothing is suspected.
ALTER TABLE penstock_cursor ADD COLUMN trial text NOT NULL DEFAULT '';

-- How long a lane was to wait when that was written: whoever reads it waits no longer, whatever the clocks say.
ALTER TABLE penstock_lane ADD COLUMN wait_ms bigint;

-- What a group has passed over because no handler of it wanted the type: where the first stands, the offset after the last,
-- and about how many. until_offset: where the group stood when it got such a handler, and holes: what it had not passed before
-- that, as JSON; the highest number there is while it has none. wanted_ms: those from this time on are to be delivered late.
-- again: 1 if they may have been handed out before.
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
