"""The limits on what one process hands out, reads and holds of a group."""

RUN = 100  # records of one key that a handler gets in a row, without a return to the delivery loop
AHEAD = 100  # records of a partition fed beyond the last settled one: the most that may go out
LEAST_AGAIN = 4  # records of a partition that may go out beyond that without being written down first
READ_RECORDS = 5000  # in one look at the log, over all partitions
READ_BYTES = 16_000_000  # of values, keys and headers in one look
HELD_BYTES = 64_000_000  # of values and headers in memory; above it nothing more is read
LANES_BOUND = 10_000  # waiting lanes of a group in one process; above it nothing more is fed
ENTRIES_BOUND = 100_000  # records in them
LATE_RECORDS = 200  # of a partition that wait to be delivered late, at once
LATE_OFFSETS = 1000  # of a partition that are looked through for such records at once,
LATE_PARTITIONS = 4  # and in how many partitions
