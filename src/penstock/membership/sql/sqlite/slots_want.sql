-- Write who should own slots; walks the primary key.
UPDATE penstock_slot AS s SET owner_wanted = json_extract(w.value, '$[1]')
FROM json_each(:wanted) w
WHERE s.slot = json_extract(w.value, '$[0]');
