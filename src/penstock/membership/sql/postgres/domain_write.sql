-- Write who has been given a share, and raise the version, so that members look; the row is locked already.
UPDATE penstock_domain SET version = version + 1, members = %(members)s WHERE name = %(name)s;
