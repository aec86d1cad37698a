-- Which of these transactions have committed: each wrote a mark, the id of its first event. Walks the primary key.
SELECT t.id FROM json_each(:ids) i CROSS JOIN penstock_token t ON t.token = CAST(i.value AS BLOB);
