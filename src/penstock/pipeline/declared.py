"""Pipelines as code: a function, and beside it where its rows come from and where they go.

Loads no Spark: a module with pipelines can be imported anywhere.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.errors import InvalidPipeline

_TOPIC = "topic:"


@dataclass(frozen=True, slots=True)
class BatchId:
    """Which batch of which query: the same when it is run again, so what it writes is known again."""

    application: str
    number: int

    def options(self, name: str) -> dict[str, str]:
        """Return the options under which a write of this batch counts once, by our sinks and by Delta's.

        `name` tells the writes of one batch apart, and stays the same from batch to batch.
        """
        return {"txnAppId": f"{self.application}/{name}", "txnVersion": str(self.number)}


@dataclass(frozen=True, kw_only=True)
class Pipeline:
    """A declared pipeline. `folder`: what it writes to, or where its checkpoint is, if a topic gets its rows.

    Called, it is the function.
    """

    function: Callable[..., Any]
    source: str = "events"
    folder: str | None = None
    topic: str | None = None
    each_batch: bool = False
    mode: str = "append"
    key: tuple[str, ...] = ()
    partition_by: str | None = None

    def __call__(self, *given: Any) -> Any:
        """Call the function."""
        return self.function(*given)

    @property
    def name(self) -> str:
        """The name of the function."""
        return str(getattr(self.function, "__name__", "pipeline"))


def pipeline(
    *,
    source: str = "events",
    sink: str | None = None,
    folder: str | None = None,
    each_batch: bool = False,
    mode: str = "append",
    key: str | Sequence[str] = (),
    partition_by: str | None = None,
) -> Callable[[Callable[..., Any]], Pipeline]:
    """Declare a function as a pipeline, for `penstock pipeline run MODULE:NAME`.

    It gets the topic `source` as a streaming DataFrame and returns one with its rows. `sink` is the folder of
    a Delta table, or `topic:NAME`; then `folder` keeps the checkpoint. With `each_batch` it gets every batch
    as a DataFrame of its own, and its `BatchId`, and writes what it likes. The options of the command win.
    Raises InvalidPipeline.
    """
    topic = sink.removeprefix(_TOPIC) if sink is not None and sink.startswith(_TOPIC) else None
    columns = tuple(key.split(",")) if isinstance(key, str) else tuple(key)

    def declare(function: Callable[..., Any]) -> Pipeline:
        name = getattr(function, "__name__", repr(function))
        if not callable(function):
            raise InvalidPipeline(name, "it is not a function")
        if topic == "":
            raise InvalidPipeline(name, "its sink names no topic: topic:NAME")
        if topic is not None and (each_batch or mode != "append" or partition_by):
            raise InvalidPipeline(
                name, "a topic takes rows as they come: leave mode, partitions and batches out"
            )
        if topic is None and folder is not None and sink is not None:
            raise InvalidPipeline(name, "its sink is a folder already: leave folder out")
        if each_batch and (mode != "append" or partition_by):
            raise InvalidPipeline(name, "with each_batch it writes itself: leave mode and partition_by out")
        return Pipeline(
            function=function,
            source=source,
            folder=folder if topic is not None else sink or folder,
            topic=topic,
            each_batch=each_batch,
            mode=mode,
            key=tuple(each.strip() for each in columns if each.strip()),
            partition_by=partition_by,
        )

    return declare
