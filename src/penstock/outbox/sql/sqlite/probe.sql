-- Which of these slots may have something to move; reads one row of each table. A hint: nothing is locked.
SELECT value FROM json_each(:slots)
WHERE EXISTS (SELECT 1 FROM penstock_staged)
   OR EXISTS (SELECT 1 FROM penstock_scheduled WHERE due_ms <= coalesce(:now_ms, CAST((julianday('now') - 2440587.5) * 86400000.0 AS INTEGER)));
