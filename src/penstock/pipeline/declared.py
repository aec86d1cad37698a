"""Pipelines as code: a function, declared with its source and its sink.

Does not import Spark: a module with pipelines can be imported anywhere.
"""

import inspect
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pkgutil import resolve_name
from typing import Any

from penstock.errors import InvalidPipeline

_TOPIC = "topic:"


@dataclass(frozen=True, slots=True)
class BatchId:
    """The identity of a batch: the same when it runs again, so that a repeated write is recognised.

    `content`: a hash of its input; an older copy of a checkpoint gives its number to another batch.
    """

    application: str
    number: int
    content: str = ""

    def options(self, name: str) -> dict[str, str]:
        """Return the options with which a write of this batch is applied once; `name` stays from batch to batch."""
        named = {"txnAppId": f"{self.application}/{name}", "txnVersion": str(self.number)}
        return named | {"txnContent": self.content} if self.content else named


@dataclass(frozen=True, kw_only=True)
class Pipeline:
    """A declared pipeline. `folder`: its target, or the place of its checkpoint, if a topic gets its rows.

    Calling it calls the function. Spark's workers that need it import its module.
    """

    function: Callable[..., Any]
    source: str = "events"
    folder: str | None = None
    topic: str | None = None
    each_batch: bool = False
    each_record: bool = False
    mode: str = "append"
    key: tuple[str, ...] = ()
    partition_by: str | None = None
    target: str | None = None  # MODULE:NAME, if a command has named it so

    def __call__(self, *given: Any) -> Any:
        return self.function(*given)

    def __reduce__(self) -> Any:
        """Pickle by name, where the name leads to it: its module may hold objects that cannot be pickled."""
        module, name = (getattr(self.function, each, "") for each in ("__module__", "__qualname__"))
        found: Any = sys.modules.get(module)
        for part in name.split("."):
            found = getattr(found, part, None)
        if found is self and module != "__main__":
            return resolve_name, (f"{module}:{name}",)
        return super().__reduce__()

    @property
    def name(self) -> str:
        """The name of the function, or that which a command has used."""
        return self.target or str(getattr(self.function, "__name__", "pipeline"))

    @property
    def writes_itself(self) -> bool:
        """Whether the function itself writes or handles the rows."""
        return self.each_batch or self.each_record


def pipeline(
    *,
    source: str = "events",
    sink: str | None = None,
    folder: str | None = None,
    each_batch: bool = False,
    each_record: bool = False,
    mode: str = "append",
    key: str | Sequence[str] = (),
    partition_by: str | None = None,
) -> Callable[[Callable[..., Any]], Pipeline]:
    """Declare a function as a pipeline, for `penstock pipeline run MODULE:NAME`.

    It gets the topic `source` as a streaming DataFrame and returns one with its rows. `sink` is the folder of
    a Delta table, or `topic:NAME`; then `folder` keeps the checkpoint. With `each_batch` it gets every batch
    as a DataFrame of its own, with its `BatchId`, and writes the rows itself. With `each_record` it is called
    in Spark's workers for every `Record`, in order for each key, at least once: it must be idempotent. The
    options of the command win. Raises InvalidPipeline.
    """
    topic = sink.removeprefix(_TOPIC) if sink is not None and sink.startswith(_TOPIC) else None
    columns = tuple(key.split(",")) if isinstance(key, str) else tuple(key)

    def declare(function: Callable[..., Any]) -> Pipeline:
        name = getattr(function, "__name__", repr(function))
        if not callable(function):
            raise InvalidPipeline(name, "it is not a function")
        if topic == "":
            raise InvalidPipeline(name, "its sink names no topic: topic:NAME")
        own = each_batch or each_record
        if topic is not None and (own or mode != "append" or partition_by):
            raise InvalidPipeline(name, "a topic takes rows as they come: leave mode, partitions and batches out")
        if topic is None and folder is not None and sink is not None:
            raise InvalidPipeline(name, "its sink is a folder already: leave folder out")
        if each_batch and each_record:
            raise InvalidPipeline(name, "it gets batches or records: leave each_batch or each_record out")
        if own and (mode != "append" or partition_by):
            which = "each_batch" if each_batch else "each_record"
            raise InvalidPipeline(name, f"with {which} it writes itself: leave mode and partition_by out")
        if each_record and inspect.iscoroutinefunction(function):
            raise InvalidPipeline(name, "with each_record it is called by threads: it cannot be async")
        return Pipeline(
            function=function,
            source=source,
            folder=folder if topic is not None else sink or folder,
            topic=topic,
            each_batch=each_batch,
            each_record=each_record,
            mode=mode,
            key=tuple(each.strip() for each in columns if each.strip()),
            partition_by=partition_by,
        )

    return declare
