"""Pipelines on Spark: topics as a source, lakehouse tables as a sink, exactly once.

Thin and picklable: Spark sends these objects to its workers. `register(spark)` registers the formats `penstock` and
`penstock-delta` with a session of your own; `spark_session()` makes a session that has them; `@pipeline(source=…,
sink=…)` declares a function as a pipeline, and a `BatchId` identifies the batch it gets; `decode(df, OrderPlaced)`
gives the fields of an event class as columns; `source_metrics(query.lastProgress)` tells how many records wait. They
are imported on first use: a Spark task imports this package, and needs none of them.
"""

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from penstock.errors import MissingExtra

if TYPE_CHECKING:
    from .declared import BatchId, Pipeline, pipeline
    from .formats import register
    from .lake.typed.decoding import decode
    from .progress import SourceMetrics, source_metrics
    from .session import spark_session

__all__ = ["BatchId", "Pipeline", "SourceMetrics", "decode", "pipeline", "register", "source_metrics", "spark_session"]


def check_extra(purpose: str, extra: str, *packages: str) -> None:
    """Check that the packages of an extra are there, without importing them. Raises MissingExtra."""
    if any(find_spec(each) is None for each in packages):
        raise MissingExtra(purpose, extra)


def check_spark() -> None:
    """Check that pipelines have the packages they need. Raises MissingExtra."""
    drivers = "adbc_driver_postgresql", "adbc_driver_sqlite"
    check_extra("a pipeline", "spark", "pyspark", "pyarrow", "deltalake", *drivers)


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used. Raises MissingExtra."""
    home: Any
    if name in ("BatchId", "Pipeline", "pipeline"):
        from . import declared as home
    elif name in ("SourceMetrics", "source_metrics"):
        from . import progress as home
    elif name == "decode":
        from .lake.typed import decoding as home
    elif name == "register":
        from . import formats as home
    elif name == "spark_session":
        from . import session as home
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(home, name)
