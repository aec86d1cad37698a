-- Remove staged rows by their exact ids; walks the primary key.
DELETE FROM penstock_staged WHERE seq IN (SELECT value FROM json_each(:seqs));
