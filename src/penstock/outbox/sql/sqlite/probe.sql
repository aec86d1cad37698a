-- Which of these slots have something to move: those of the oldest staged rows, or all of them when there are many or a
-- scheduled row is due; walks the primary key for so many rows, and ix_penstock_scheduled_due for one. A hint: nothing is
-- locked.
WITH first AS MATERIALIZED (
    SELECT slot FROM penstock_staged WHERE slot IN (SELECT value FROM json_each(:slots)) ORDER BY seq LIMIT 64)
SELECT slot FROM first WHERE (SELECT count(*) FROM first) < 64
UNION
SELECT value FROM json_each(:slots)
WHERE (SELECT count(*) FROM first) = 64
   OR EXISTS (SELECT 1 FROM penstock_scheduled WHERE due_ms <= coalesce(:now_ms, CAST((julianday('now') - 2440587.5) * 86400000.0 AS INTEGER)));
