-- Remove what was said about sharing a deleted topic; reads the table, which is small.
DELETE FROM penstock_domain WHERE name LIKE 'group/%%/' || %(topic_id)s::text;
