"""Worlds in databases of a PostgreSQL server, each a copy of the kept one."""

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

from psycopg.sql import SQL, Identifier

from penstock.database.postgres.dialect import PostgresDialect
from penstock.errors import LabFailed

from .worlds import Worlds

_CREATE = "CREATE DATABASE {}"
_COPY = "CREATE DATABASE {} TEMPLATE {}"
_DROP = "DROP DATABASE IF EXISTS {} WITH (FORCE)"
_AT_WORK = "SELECT count(*), pg_sleep(0.01) FROM pg_stat_activity WHERE datname = %s"
_MOST_LOOKS = 1000


class PostgresWorlds(Worlds):
    """Separate databases, created and dropped through the given address; each with a folder."""

    def __init__(self, root: Path, server: str) -> None:
        super().__init__(root)
        name = f"penstock_lab_{uuid4().hex[:12]}"
        self._name, self._kept_name, self._dialect = name, f"{name}_kept", PostgresDialect(server)
        self.url = urlunsplit(urlsplit(server)._replace(path=f"/{name}"))
        self._run(_CREATE, name)

    def keep(self) -> None:
        """Copy folder and database; there are no connections."""
        super().keep()
        self._run(_COPY, self._kept_name, self._name)

    def renew(self) -> None:
        """Copy both back."""
        super().renew()
        self._run(_DROP, self._name)
        self._run(_COPY, self._name, self._kept_name)

    def calm(self) -> None:
        """Wait until the server has noticed the end of a killed process, and rolled its transactions back."""
        for _ in range(_MOST_LOOKS):
            if self._with(lambda conn: conn.execute(_AT_WORK, (self._name,)).fetchone()[0]) == 0:
                return
        raise LabFailed(f"sessions of a killed process stay in database {self._name}; is there a pooler in between?")

    def drop(self) -> None:
        """Remove the databases."""
        self._run(_DROP, self._name)
        self._run(_DROP, self._kept_name)

    def _run(self, statement: str, *names: str) -> None:
        self._with(lambda conn: conn.execute(SQL(statement).format(*map(Identifier, names))))

    def _with(self, work: Any) -> Any:
        conn = self._dialect.connect()
        try:
            return work(conn)
        finally:
            self._dialect.close(conn)
