"""The batches of a pipeline as metrics series of this process."""

from penstock import metrics

from .query import Progress


class PipelineSeries:
    """The series of one pipeline, known by the name under which it reads."""

    def __init__(self, store: str, name: str) -> None:
        self._store, self._name = store, name

    def count(self, batch: Progress) -> None:
        """Count a batch that has ended."""
        metrics.PIPELINE_RECORDS.add(batch.rows, pipeline=self._name)
        metrics.PIPELINE_BATCH_SECONDS.observe(batch.seconds, pipeline=self._name)
        if batch.lag is not None:
            metrics.PIPELINE_LAG.set(batch.lag, store=self._store, pipeline=self._name)

    def count_interruption(self) -> None:
        """Count an interruption that made the pipeline restart."""
        metrics.PIPELINE_INTERRUPTIONS.add(pipeline=self._name)
