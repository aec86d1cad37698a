"""The settings of a log in files."""

from penstock.settings import Settings, setting

MIB = 1 << 20


class FilesSettings(Settings, room="files"):
    """How a log in files is written."""

    durability: str = setting(
        "fsync",
        "When an append is acknowledged: fsync, once it is on disk; interval, at once, and it is on disk "
        "within files.interval_seconds; os, at once, and the system decides when to write it to disk.",
        choices=("fsync", "interval", "os"),
    )
    interval_seconds: float = setting(
        1.0, "With durability = interval: longest time until an acknowledged append is on disk.", at_least=0.01
    )
    segment_bytes: int = setting(
        64 * MIB, "Size at which a segment is closed and the next begun.", at_least=4096, at_most=2048 * MIB
    )
    segment_seconds: float = setting(24 * 3600.0, "Age at which a segment is closed by the next append.", at_least=1)
    index_bytes: int = setting(
        32 * 1024, "Distance between two marks of a segment's index, in bytes.", at_least=1, at_most=MIB
    )
    buffer_bytes: int = setting(64 * MIB, "Most bytes that wait for the disk; above it, appends wait.", at_least=MIB)
    sync_threads: int = setting(16, "Files that are synced at the same time.", at_least=1, at_most=256)
    open_files: int = setting(512, "Most segments that are open at the same time.", at_least=16)
    producer_seconds: float = setting(
        24 * 3600.0,
        "Time after which a partition forgets a silent producer without an open transaction: a batch that "
        "the producer sends again after that is appended twice.",
        at_least=60,
    )
    producers: int = setting(
        10_000,
        "Most producers that a partition remembers, beside those with a transaction open; above it, the "
        "longest silent ones are forgotten.",
        at_least=4,
    )
    compress_seconds: float = setting(
        0.0,
        "Time after which a closed segment is compressed with zstd in the background; 0: never. Some Kafka "
        "clients cannot read zstd.",
        at_least=0,
    )
    compact_map_bytes: int = setting(
        128 * MIB, "Approximate limit of the memory that a pass of compaction uses for keys.", at_least=MIB
    )
    upkeep_bytes: int = setting(256 * MIB, "Bytes of segments after which a pass of upkeep pauses.", at_least=1)
