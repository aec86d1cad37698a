-- Who may do what, for rules that are kept in the database. Adds only.
UPDATE penstock_meta SET value = '12' WHERE name = 'schema_version';

-- Rules of access, each as its line (access/rule.py); those of a file are not here. added_by: who added it.
CREATE TABLE penstock_access_rule (
    rule     text NOT NULL PRIMARY KEY,
    added_by text NOT NULL,
    added_ms bigint NOT NULL
);
