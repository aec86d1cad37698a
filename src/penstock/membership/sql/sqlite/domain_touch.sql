-- Raise a domain's version, so that its members look; walks the primary key.
UPDATE penstock_domain SET version = version + 1 WHERE name = :name;
