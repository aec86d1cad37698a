"""The settings of pipelines."""

from penstock.settings import Settings, setting


class PipelineSettings(Settings, room="pipeline"):
    """How pipelines run."""

    master: str = setting("local[*]", "Where Spark runs: local[*], spark://host:7077, yarn, k8s://….")
    batch_records: int = setting(500_000, "Most records of one micro-batch of a pipeline.", at_least=1)
    trigger_seconds: float = setting(
        1.0, "Pause between the starts of two micro-batches of a streaming pipeline.", at_least=0
    )
    stop_seconds: float = setting(
        30.0, "How long a pipeline that is asked to stop may finish its batch.", at_least=0
    )
    retry_seconds: float = setting(
        600.0,
        "How long a pipeline that is interrupted (database away, executor lost) is tried again.",
        at_least=0,
    )
    hold_retention: bool = setting(
        True, "Whether retention waits for what a pipeline has not read yet, as it does for groups."
    )
