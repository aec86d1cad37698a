-- What PostgreSQL is told in its own way: locks in an order, LATERAL, and several steps in one statement.

-- name: ask
-- What is wanted, as settings that end with the transaction; reads and locks nothing. A query without parameters is one
-- that the driver can stream (COPY): three times as fast, and in bounded memory.
SELECT set_config('penstock.topic_id', $1, true), set_config('penstock.partitions', $2, true),
       set_config('penstock.starts', $3, true), set_config('penstock.ends', $4, true),
       set_config('penstock.key', $5, true), set_config('penstock.value', $6, true),
       set_config('penstock.headers', $7, true);

-- name: fetch
-- Records of several partitions, a range of offsets each (see `ask`), but for erased ones; walks the primary key, locks nothing.
SELECT l.partition, l."offset", l.type, l.timestamp_ms,
       CASE WHEN current_setting('penstock.key')::boolean THEN l.key END AS key,
       CASE WHEN current_setting('penstock.value')::boolean THEN l.value END AS value,
       CASE WHEN current_setting('penstock.headers')::boolean THEN l.headers END AS headers
FROM unnest(string_to_array(current_setting('penstock.partitions'), ',')::integer[],
            string_to_array(current_setting('penstock.starts'), ',')::bigint[],
            string_to_array(current_setting('penstock.ends'), ',')::bigint[]) AS w (partition, low, high)
CROSS JOIN LATERAL (
    SELECT g.* FROM penstock_log g
    WHERE g.topic_id = current_setting('penstock.topic_id')::integer AND g.partition = w.partition
      AND g."offset" >= w.low AND g."offset" < w.high AND g.type <> 'penstock.erased'
    ORDER BY g."offset"
) AS l;

-- name: starts
-- The first offset kept of each partition of a topic (see `ask`); walks the primary key, locks nothing.
SELECT partition, start_offset FROM penstock_head WHERE topic_id = current_setting('penstock.topic_id')::integer;
