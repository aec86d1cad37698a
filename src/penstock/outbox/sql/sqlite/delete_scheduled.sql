-- Remove scheduled rows by their exact ids; walks the primary key.
DELETE FROM penstock_scheduled WHERE seq IN (SELECT value FROM json_each(:seqs));
