-- The version of a group's filter; walks the primary key, and locks the row against a change until the end.
SELECT filter_version FROM penstock_group WHERE id = %(group_id)s FOR SHARE;
