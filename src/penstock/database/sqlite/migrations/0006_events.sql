-- The view of events for SQL users.
UPDATE penstock_meta SET value = '6' WHERE name = 'schema_version';

-- Every event of this store, for SQL users: scheduled, staged and logged. name: as in listings. value and headers are
-- JSON; a value that is not JSON is NULL here, and its bytes are in data. action and entity: the change and its row,
-- for an event declared on a model. Headers are read from Kafka's framing: part 0 is their count, 1 the length of a
-- name, 2 that of a value; each is a number of seven bits a byte, doubled, or 1 for NULL; byte is the next to be read.
-- A header's value that is not valid text is shown as hexadecimal digits: converted to characters and back, it differs.
CREATE VIEW penstock_events AS
SELECT state, topic, partition, "offset", id, name, type, key, value, headers,
       json_extract(headers, '$.action') AS action, json_extract(headers, '$.entity') AS entity,
       timestamp, due, owner, data
FROM (
    SELECT e.state, e.topic, e.partition, e."offset", e.id,
           'event:' || e.type || ':' || coalesce(substr('0000', length(e.partition) + 1) || e.partition, '-') || ':'
           || substr('0000000000000', length(coalesce(e.due_ms, e.timestamp_ms)) + 1) || coalesce(e.due_ms, e.timestamp_ms)
           || ':' || e.id AS name,
           e.type, CAST(e.key AS TEXT) AS key,
           CASE WHEN json_valid(CAST(e.data AS TEXT)) THEN CAST(e.data AS TEXT) END AS value,
           CASE WHEN e.headers IS NULL THEN '{}' ELSE (
               WITH RECURSIVE walk (at, byte, part, number, shift, remaining, name, value) AS (
                   SELECT 1, 16 * instr('123456789ABCDEF', substr(hex(substr(e.headers, 1, 1)), 1, 1))
                          + instr('123456789ABCDEF', substr(hex(substr(e.headers, 1, 1)), 2, 1)), 0, 0, 0, NULL, NULL, NULL
                   UNION ALL
                   SELECT w.at + 1 + CASE WHEN w.byte > 127 OR w.part = 0 THEN 0
                                          ELSE (w.number | ((w.byte & 127) << w.shift)) >> 1 END,
                          16 * instr('123456789ABCDEF', substr(hex(substr(e.headers, w.at + 1
                              + CASE WHEN w.byte > 127 OR w.part = 0 THEN 0
                                     ELSE (w.number | ((w.byte & 127) << w.shift)) >> 1 END, 1)), 1, 1))
                          + instr('123456789ABCDEF', substr(hex(substr(e.headers, w.at + 1
                              + CASE WHEN w.byte > 127 OR w.part = 0 THEN 0
                                     ELSE (w.number | ((w.byte & 127) << w.shift)) >> 1 END, 1)), 2, 1)),
                          CASE WHEN w.byte > 127 THEN w.part WHEN w.part = 1 THEN 2 ELSE 1 END,
                          CASE WHEN w.byte > 127 THEN w.number | ((w.byte & 127) << w.shift) ELSE 0 END,
                          CASE WHEN w.byte > 127 THEN w.shift + 7 ELSE 0 END,
                          CASE WHEN w.byte > 127 OR w.part = 1 THEN w.remaining WHEN w.part = 2 THEN w.remaining - 1
                               ELSE (w.number | ((w.byte & 127) << w.shift)) >> 1 END,
                          CASE WHEN w.part = 2 THEN w.name WHEN w.part = 1 AND w.byte < 128
                               THEN substr(e.headers, w.at + 1, (w.number | ((w.byte & 127) << w.shift)) >> 1) END,
                          CASE WHEN w.part = 2 AND w.byte < 128 AND (w.number | ((w.byte & 127) << w.shift)) <> 1
                               THEN substr(e.headers, w.at + 1, (w.number | ((w.byte & 127) << w.shift)) >> 1) END
                   FROM walk w
                   WHERE w.at <= length(e.headers) AND w.shift < 35 AND coalesce(w.remaining, 1) > 0
               )
               SELECT CASE WHEN max(last.at) = length(e.headers) + 1 AND min(last.remaining) = 0
                   THEN json_group_object(CAST(last.name AS TEXT), CASE
                       WHEN last.value IS NULL OR CAST(last.value AS TEXT) NOT GLOB '*[^ -~]*'
                         OR CAST(last.value AS TEXT) = (
                           WITH RECURSIVE again (at, text) AS (
                               SELECT 1, ''
                               UNION ALL
                               SELECT a.at + 1, a.text || char(unicode(substr(CAST(last.value AS TEXT), a.at, 1)))
                               FROM again a WHERE a.at <= length(CAST(last.value AS TEXT))
                           )
                           SELECT a.text FROM again a ORDER BY a.at DESC LIMIT 1)
                       THEN CAST(last.value AS TEXT) ELSE '\x' || lower(hex(last.value)) END)
                   FILTER (WHERE last.name IS NOT NULL) END
               FROM (
                   SELECT CASE WHEN w.part = 1 THEN w.name END AS name, w.value, w.remaining, max(w.at) AS at
                   FROM walk w GROUP BY 1) last) END AS headers,
           CASE WHEN e.timestamp_ms BETWEEN 0 AND 253402300799999
                THEN replace(datetime(e.timestamp_ms / 1000, 'unixepoch'), ' ', 'T')
                || '.' || substr(1000 + e.timestamp_ms - e.timestamp_ms / 1000 * 1000, 2) || 'Z' END AS timestamp,
           replace(datetime(e.due_ms / 1000, 'unixepoch'), ' ', 'T')
           || '.' || substr(1000 + e.due_ms - e.due_ms / 1000 * 1000, 2) || 'Z' AS due,
           e.owner, e.data
    FROM (
        SELECT 'logged' AS state, t.name AS topic, l.partition, l."offset", l.id, l.type, l.key, l.value AS data, l.headers,
               l.timestamp_ms, NULL AS due_ms, l.owner
        FROM penstock_log l JOIN penstock_topic t ON t.id = l.topic_id
        UNION ALL
        SELECT 'staged', topic, NULL, NULL, id, type, key, value, headers, timestamp_ms, NULL, owner FROM penstock_staged
        UNION ALL
        SELECT 'scheduled', topic, NULL, NULL, id, type, key, value, headers, timestamp_ms, due_ms, owner
        FROM penstock_scheduled
    ) e
);
