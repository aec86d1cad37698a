-- Who owns partitions of a group; walks the primary key.
SELECT DISTINCT owner FROM penstock_cursor WHERE group_id = :group_id AND owner IS NOT NULL;
