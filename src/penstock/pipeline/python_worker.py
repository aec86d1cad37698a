"""A Python worker of Spark: kept from one task to the next, and cleaned up after each.

Spark's daemon has the garbage collected after every task. What a worker has imported by then is some hundred
thousand objects that never go, and looking through them is most of what a task of a small batch costs. So
they are set aside once: the collector leaves them out, and still finds what tasks leave behind.
"""

import gc
import sys

_DAEMON = "pyspark.daemon"
_settled = False


def settle_in() -> None:
    """Set aside what is loaded, in a worker of Spark's and once; elsewhere do nothing."""
    global _settled
    if not _settled and _is_worker():
        gc.collect()
        gc.freeze()
        _settled = True


def _is_worker() -> bool:
    return getattr(sys.modules["__main__"].__spec__, "name", None) == _DAEMON
