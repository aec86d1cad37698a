-- The filters of groups, to be changed perhaps; walks the primary key. The transaction is the only writer: that is the
-- lock.
SELECT id, filters FROM penstock_group WHERE id IN (SELECT value FROM json_each(:groups)) ORDER BY id;
