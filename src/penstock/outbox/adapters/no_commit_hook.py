"""The common part of adapters for drivers, none of which has a hook for a commit."""

from collections.abc import Callable
from typing import Any


class NoCommitHook:
    """The base of adapters for drivers."""

    def after_commit(self, conn: Any, call: Callable[[], object]) -> bool:
        """Return False: drivers have no hook."""
        return False
