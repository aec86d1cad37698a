"""Values: records, keys and partitions, retry policies, outcomes, typed events; no I/O and no clock."""
