-- Write a group's filters; walks the primary key.
UPDATE penstock_group SET filters = :filters, filter_version = filter_version + 1 WHERE id = :group_id;
