-- Write who should own partitions of a group; walks the primary key. The list is read once, into a table of its own.
WITH w AS MATERIALIZED (
    SELECT json_extract(value, '$[0]') AS number, json_extract(value, '$[1]') AS owner FROM json_each(:wanted))
UPDATE penstock_cursor AS c SET owner_wanted = w.owner FROM w
WHERE c.group_id = :group_id AND c.topic_id = :topic_id AND c.partition = w.number;
