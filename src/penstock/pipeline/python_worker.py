"""A Python worker of Spark: reused from task to task, and garbage-collected after each.

Spark's daemon collects garbage after every task. The modules that a worker has imported by then are some
hundred thousand permanent objects, and scanning them is most of the cost of a task in a small batch. So they
are frozen once: the collector skips them, and still finds the garbage of tasks.
"""

import gc
import sys

_DAEMON = "pyspark.daemon"
_settled = False


def settle_in() -> None:
    """Freeze the loaded objects, once, in a worker of Spark; elsewhere do nothing."""
    global _settled
    if not _settled and _is_worker():
        gc.collect()
        gc.freeze()
        _settled = True


def _is_worker() -> bool:
    return getattr(sys.modules["__main__"].__spec__, "name", None) == _DAEMON
