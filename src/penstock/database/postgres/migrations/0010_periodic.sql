-- Schedules of periodic events.
UPDATE penstock_meta SET value = '10' WHERE name = 'schema_version';

-- Schedules of periodic events. definition: as JSON; version and since_ms: number and time of its last change; retired:
-- fingerprints of replaced definitions. next_ms: the next tick. error: of the function that makes the event.
CREATE TABLE penstock_periodic (
    name       text PRIMARY KEY,
    definition text NOT NULL,
    version    integer NOT NULL DEFAULT 1,
    retired    text NOT NULL DEFAULT '[]',
    since_ms   bigint NOT NULL,
    last_ms    bigint,
    next_ms    bigint NOT NULL,
    paused     boolean NOT NULL DEFAULT false,
    failures   integer NOT NULL DEFAULT 0,
    error      text,
    failed_ms  bigint
);
