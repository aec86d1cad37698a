"""The settings of pipelines."""

from penstock.settings import Settings, setting


class PipelineSettings(Settings, room="pipeline"):
    """How pipelines run."""

    master: str = setting("local[*]", "Where Spark runs: local[*], spark://host:7077, yarn, k8s://….")
    batch_records: int = setting(500_000, "Most records of one micro-batch of a pipeline.", at_least=1)
    batch_bytes: int = setting(
        0,
        "Most bytes of one micro-batch of a pipeline, as retention counts them; a larger record comes alone. "
        "The driver looks at the sizes of what waits, which costs something; 0: no bound.",
        at_least=0,
    )
    small_batch_records: int = setting(
        1_000, "Fewer records than this make a small batch, and small ones are kept apart.", at_least=1
    )
    small_batch_seconds: float = setting(
        5.0,
        "Least time between the starts of two micro-batches when few records wait; the first one after a "
        "pause starts at once. Few large files are cheaper to write and to read than many small ones.",
        at_least=0,
    )
    trigger_seconds: float = setting(
        1.0, "Pause between the starts of two micro-batches of a streaming pipeline.", at_least=0
    )
    stop_seconds: float = setting(30.0, "How long a pipeline that is asked to stop may finish its batch.", at_least=0)
    retry_seconds: float = setting(
        600.0, "How long a pipeline that is interrupted (database away, executor lost) is tried again.", at_least=0
    )
    file_bytes: int = setting(128 << 20, "Size up to which the small files of a table are joined.", at_least=1 << 20)
    compact_files: int = setting(
        16, "So many small files of a table are joined while a pipeline runs; 0: never.", at_least=0
    )
    vacuum_hours: int = setting(
        168,
        "Age at which files that a table does not point to any more are removed while a pipeline runs; 0: never.",
        at_least=0,
    )
    upkeep_seconds: float = setting(
        60.0, "Pause between two looks at the files of the tables while a pipeline runs.", at_least=0.1
    )
    hold_retention: bool = setting(
        True, "Whether retention waits for what a pipeline has not read yet, as it does for groups."
    )
