-- Write a group's filters; its row is locked already.
UPDATE penstock_group SET filters = %(filters)s, filter_version = filter_version + 1 WHERE id = %(group_id)s;
