-- Dead letters are listed by time of death.
UPDATE penstock_meta SET value = '4' WHERE name = 'schema_version';

CREATE INDEX ix_penstock_dead_died ON penstock_dead (died_ms, group_id, topic_id, partition, "offset");
