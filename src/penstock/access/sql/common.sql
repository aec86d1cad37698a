-- The statements of this room for every engine, in the neutral SQL that database/statements.py describes.

-- name: access_rules
-- All rules, in the order they were added; reads the table, which is small, locks nothing.
SELECT rule, added_by, added_ms FROM penstock_access_rule ORDER BY added_ms, rule;

-- name: access_rule_add
-- Add a rule unless it is there; walks the primary key, locks that row.
-- without on_conflict: instead(access_rule_add_missing)
INSERT INTO penstock_access_rule (rule, added_by, added_ms) VALUES (:rule, :added_by, :added_ms)
ON CONFLICT (rule) DO NOTHING;

-- name: access_rule_add_missing
-- The second form of access_rule_add; walks the primary key.
INSERT INTO penstock_access_rule (rule, added_by, added_ms) SELECT :rule, :added_by, :added_ms
WHERE NOT EXISTS (SELECT 1 FROM penstock_access_rule a WHERE a.rule = :rule);

-- name: access_rule_remove
-- Remove a rule; walks the primary key, locks that row.
DELETE FROM penstock_access_rule WHERE rule = :rule;
