-- Access rules stored in the database. Adds only.
UPDATE penstock_meta SET value = '12' WHERE name = 'schema_version';

-- Access rules, each as its line (access/rule.py); rules from a file are not here. added_by: the actor who added it.
CREATE TABLE penstock_access_rule (
    rule     TEXT NOT NULL PRIMARY KEY,
    added_by TEXT NOT NULL,
    added_ms INTEGER NOT NULL
) WITHOUT ROWID;
