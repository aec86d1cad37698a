-- SQLite's own forms: it has one writer and so no locks, and CROSS JOIN fixes the order of tables.

-- == On the caller's connection

-- name: durability
-- Whether commits of this session survive a crash of the machine; reads no table.
PRAGMA synchronous;

-- == The move

-- name: probe
-- Which of these slots have rows to move: those of the oldest staged rows, or all of them when there are many or a
-- scheduled row is due; walks the primary key up to a limit of rows, and ix_penstock_scheduled_due for one row. A hint:
-- nothing is locked.
WITH first AS MATERIALIZED (
    SELECT slot FROM penstock_staged WHERE slot IN (SELECT value FROM json_each(:slots)) ORDER BY seq LIMIT 64)
SELECT slot FROM first WHERE (SELECT count(*) FROM first) < 64
UNION
SELECT value FROM json_each(:slots)
WHERE (SELECT count(*) FROM first) = 64
   OR EXISTS (SELECT 1 FROM penstock_scheduled WHERE due_ms <= now_ms(:now_ms));

-- == Tokens and marks

-- name: marks_drop
-- Remove marks that have been read; walks the primary key.
DELETE FROM penstock_token WHERE token IN (SELECT CAST(value AS BLOB) FROM json_each(:ids));

-- name: marks_find
-- Which of these transactions have committed: each wrote a mark, the id of its first event. Walks the primary key.
SELECT t.id FROM json_each(:ids) i CROSS JOIN penstock_token t ON t.token = CAST(i.value AS BLOB);
