"""Drivers: they tell nobody that a transaction has committed."""

from collections.abc import Callable
from typing import Any


class Untold:
    """What adapters of drivers have in common."""

    def after_commit(self, conn: Any, call: Callable[[], object]) -> bool:
        """Drivers have no hook."""
        return False
