-- What is wanted, as settings that end with the transaction; reads and locks nothing. A query without parameters is one
-- that the driver can stream (COPY): three times as fast, and in bounded memory.
SELECT set_config('penstock.topic_id', $1, true), set_config('penstock.partitions', $2, true),
       set_config('penstock.starts', $3, true), set_config('penstock.ends', $4, true),
       set_config('penstock.key', $5, true), set_config('penstock.value', $6, true),
       set_config('penstock.headers', $7, true);
