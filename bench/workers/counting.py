"""How many statements this process sends through PostgreSQL's driver."""

from itertools import count
from typing import Any, Self
from unittest.mock import patch

import psycopg


class StatementCount:
    """Counts what cursors execute within a `with` block, transactions' begins and ends included."""

    def __init__(self) -> None:
        self._numbers = count(1)
        self._last = 0
        execute = psycopg.Cursor.execute

        def counted(cursor: Any, query: Any, params: Any = None, **options: Any) -> Any:
            self._last = max(self._last, next(self._numbers))
            return execute(cursor, query, params, **options)

        self._patch = patch.object(psycopg.Cursor, "execute", counted)

    def __enter__(self) -> Self:
        self._patch.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._patch.stop()

    def count(self) -> int:
        """Return how many there were."""
        return self._last
