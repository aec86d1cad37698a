-- Write who has been given a share, and raise the version, so that members look; walks the primary key.
UPDATE penstock_domain SET version = version + 1, members = :members WHERE name = :name;
