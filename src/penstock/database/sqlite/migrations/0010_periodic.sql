-- Schedules of periodic events.
UPDATE penstock_meta SET value = '10' WHERE name = 'schema_version';

-- Schedules of periodic events. definition: as JSON; version and since_ms: number and time of its last change; retired:
-- fingerprints of replaced definitions. next_ms: the next tick. error: of the function that makes the event.
CREATE TABLE penstock_periodic (
    name       TEXT PRIMARY KEY,
    definition TEXT NOT NULL,
    version    INTEGER NOT NULL DEFAULT 1,
    retired    TEXT NOT NULL DEFAULT '[]',
    since_ms   INTEGER NOT NULL,
    last_ms    INTEGER,
    next_ms    INTEGER NOT NULL,
    paused     INTEGER NOT NULL DEFAULT 0,
    failures   INTEGER NOT NULL DEFAULT 0,
    error      TEXT,
    failed_ms  INTEGER
) WITHOUT ROWID;
