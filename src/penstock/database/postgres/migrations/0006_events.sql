-- The view of events for SQL users.
UPDATE penstock_meta SET value = '6' WHERE name = 'schema_version';

-- Bytes as JSON, NULL if they are not JSON: a value of the log may be anything.
CREATE FUNCTION penstock_json(data bytea) RETURNS json LANGUAGE plpgsql IMMUTABLE STRICT AS '
BEGIN
    RETURN convert_from(data, ''UTF8'')::json;
EXCEPTION WHEN OTHERS THEN
    RETURN NULL;
END';

-- Bytes as text, or as hexadecimal digits if they are not text.
CREATE FUNCTION penstock_text(data bytea) RETURNS text LANGUAGE plpgsql IMMUTABLE STRICT AS '
BEGIN
    RETURN convert_from(data, ''UTF8'');
EXCEPTION WHEN OTHERS THEN
    RETURN ''\x'' || encode(data, ''hex'');
END';

-- Headers in Kafka's framing as JSON, NULL if they are not valid: a count, then lengths and bytes of names and values;
-- a number has seven bits per byte and is doubled, 1 is NULL. The last one of a repeated name wins.
CREATE FUNCTION penstock_headers(data bytea) RETURNS json LANGUAGE plpgsql IMMUTABLE STRICT AS '
DECLARE
    place integer := 0; part integer := 0; shift integer := 0; number bigint := 0; remaining bigint := 1;
    name text; value text; found jsonb := ''{}'';
BEGIN
    WHILE remaining > 0 LOOP
        number := number | ((get_byte(data, place) & 127)::bigint << shift);
        place := place + 1;
        IF get_byte(data, place - 1) > 127 THEN
            shift := shift + 7;
            CONTINUE;
        END IF;
        IF part = 0 THEN
            remaining := number >> 1;
        ELSE
            value := CASE WHEN number <> 1 THEN penstock_text(substring(data FROM place + 1 FOR (number >> 1)::integer)) END;
            place := place + (number >> 1);
        END IF;
        IF part = 1 THEN
            name := value;
        ELSIF part = 2 THEN
            found := found || jsonb_build_object(name, value);
            remaining := remaining - 1;
        END IF;
        part := CASE WHEN part = 1 THEN 2 ELSE 1 END;
        number := 0;
        shift := 0;
    END LOOP;
    RETURN CASE WHEN place = length(data) THEN found::json END;
EXCEPTION WHEN OTHERS THEN
    RETURN NULL;
END';

-- Every event of this store, for SQL users: scheduled, staged and logged. name: as in listings. value and headers are
-- JSON; a value that is not JSON is NULL here, and its bytes are in data. action and entity: the change and its row,
-- for an event declared on a model.
CREATE VIEW penstock_events AS
SELECT e.state, e.topic, e.partition, e."offset", e.id,
       'event:' || e.type || ':' || coalesce(lpad(e.partition::text, 4, '0'), '-') || ':'
       || overlay('0000000000000' PLACING coalesce(e.due_ms, e.timestamp_ms)::text
                  FROM greatest(1, 14 - length(coalesce(e.due_ms, e.timestamp_ms)::text))) || ':' || e.id AS name,
       e.type, penstock_text(e.key) AS key, penstock_json(e.data) AS value,
       CASE WHEN e.headers IS NULL THEN '{}'::json ELSE penstock_headers(e.headers) END AS headers,
       penstock_headers(e.headers)->>'action' AS action, penstock_headers(e.headers)->>'entity' AS entity,
       CASE WHEN e.timestamp_ms BETWEEN 0 AND 253402300799999
            THEN to_timestamp(e.timestamp_ms / 1000) + mod(e.timestamp_ms, 1000) * interval '1 millisecond' END AS timestamp,
       to_timestamp(e.due_ms / 1000) + mod(e.due_ms, 1000) * interval '1 millisecond' AS due,
       e.owner, e.data
FROM (
    SELECT 'logged' AS state, t.name AS topic, l.partition, l."offset", l.id, l.type, l.key, l.value AS data, l.headers,
           l.timestamp_ms, NULL::bigint AS due_ms, l.owner
    FROM penstock_log l JOIN penstock_topic t ON t.id = l.topic_id
    UNION ALL
    SELECT 'staged', topic, NULL, NULL, id, type, key, value, headers, timestamp_ms, NULL, owner FROM penstock_staged
    UNION ALL
    SELECT 'scheduled', topic, NULL, NULL, id, type, key, value, headers, timestamp_ms, due_ms, owner
    FROM penstock_scheduled
) e;
