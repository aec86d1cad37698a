-- Raise a domain's version, so that its members look; locks its row.
UPDATE penstock_domain SET version = version + 1 WHERE name = %(name)s;
