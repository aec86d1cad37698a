"""A private, real PostgreSQL server in a run folder.

Owns: one server below `<run folder>/postgres`, reachable through a Unix socket only, so that no port
is taken and nobody else on the machine gets in. Refuses: knowing pytest; `bench/` uses it as it is.
Invariant: processes that name the same run folder share the same server, whoever starts it.
"""

from __future__ import annotations

import shutil
import uuid
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import quote

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from tests.services.postgres_binaries import Account, PostgresUnavailable, find_programs
from tests.services.run_folder import RunFolder, exclusive, leave_guardian

__all__ = ["PostgresServer", "PostgresUnavailable"]

PORT = 5432  # only names the socket file; given in every URL so that a PGPORT outside has no say
LONGEST_START_SECONDS = 60


class PostgresServer:
    """Starts, shares and stops the server; without a folder it makes one of its own and owns it.

    Safety: any process may call anything; a file lock puts starts and stops in a row.
    Crash: the guardian of the run folder stops the server when the folder's owner dies.
    """

    def __init__(self, folder: Path | None = None, *, fsync: bool = True) -> None:
        self._own_run: RunFolder | None = None
        if folder is None:
            self._own_run = RunFolder()
            folder = self._own_run.path
        self._run = folder
        self._home = self._run / "postgres"
        self._data = self._home / "data"
        self._words = self._home / "commands.log"  # ours; the server's log belongs to its account
        self._log = self._home / "server.log"
        self._programs_note = self._home / "programs.path"
        self.fsync = fsync

    def start(self) -> None:
        """Start the server unless it runs already. Raises PostgresUnavailable."""
        account = Account.choose()
        with exclusive(self._run / "postgres.lock"):
            if self._is_running(account):
                return
            self._home.mkdir(mode=0o700, exist_ok=True)
            account.own(self._home)
            programs = find_programs(account, self._home)
            self._programs_note.write_text(str(programs))
            if not self._data.exists():
                self._initialise(account, programs)
            leave_guardian(self._run)  # before the server: there must be no moment without one
            self._pg_ctl(account, "start", "-l", str(self._log), "-t", str(LONGEST_START_SECONDS))

    def stop(self) -> None:
        """Stop the server and wait until it is down. With a folder of its own, that is the end of both."""
        if self._run.exists():
            with exclusive(self._run / "postgres.lock"):
                account = Account.choose()
                if self._is_running(account):
                    self._stop(account)
        if self._own_run is not None:
            self._own_run.close()

    def create_database(self, encoding: str | None = None) -> str:
        """Make an empty database, perhaps in another encoding than the server's, and return its URL."""
        name = f"test_{uuid.uuid4().hex[:12]}"
        # template0 never has a visitor, so parallel creations cannot disturb each other.
        made = sql.SQL("CREATE DATABASE {} TEMPLATE template0").format(sql.Identifier(name))
        if encoding is not None:
            made += sql.SQL(" ENCODING {} LOCALE 'C'").format(sql.Literal(encoding))
        self._execute(made)
        return self.url(name)

    def drop_database(self, url: str) -> None:
        """Drop a database of `create_database`, and the connections that are still open to it."""
        name = str(conninfo_to_dict(url)["dbname"])
        self._execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))

    def url(self, database: str = "postgres") -> str:
        """Return the address of one database for libpq, SQLAlchemy and their like."""
        return f"postgresql://postgres@/{database}?host={quote(str(self._home))}&port={PORT}"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _is_running(self, account: Account) -> bool:
        if not (self._data.exists() and self._programs_note.exists()):
            return False
        pg_ctl = str(Path(self._programs_note.read_text()) / "pg_ctl")
        return account.run([pg_ctl, "status", "-D", str(self._data)], self._home, self._words) == 0

    def _initialise(self, account: Account, programs: Path) -> None:
        unfinished = self._home / "data.new"
        shutil.rmtree(unfinished, ignore_errors=True)
        # The cluster is not worth a sync before the first row; C sorts alike on every machine.
        options = ["--no-sync", "--auth=trust", "--username=postgres", "--encoding=UTF8", "--locale=C"]
        command = [str(programs / "initdb"), *options, "-D", str(unfinished)]
        if account.run(command, self._home, self._words) != 0:
            raise PostgresUnavailable(f"initdb failed: {self._last_words()}")
        with (unfinished / "postgresql.conf").open("a") as settings:
            settings.write("listen_addresses = ''\n")
            settings.write(f"unix_socket_directories = '{str(self._home).replace(chr(39), 2 * chr(39))}'\n")
            settings.write(f"port = {PORT}\n")
            settings.write("max_connections = 300\n")  # sessions of killed processes may linger
            settings.write(f"fsync = {'on' if self.fsync else 'off'}\n")
        unfinished.rename(self._data)

    def _stop(self, account: Account) -> None:
        try:
            self._pg_ctl(account, "stop", "-m", "fast")
        except PostgresUnavailable:
            # A client that hangs must not keep the server alive forever; the data is thrown away.
            self._pg_ctl(account, "stop", "-m", "immediate")

    def _pg_ctl(self, account: Account, verb: str, *options: str) -> None:
        pg_ctl = str(Path(self._programs_note.read_text()) / "pg_ctl")
        command = [pg_ctl, verb, "-w", "-D", str(self._data), *options]
        if account.run(command, self._home, self._words) != 0:
            raise PostgresUnavailable(f"pg_ctl {verb} failed: {self._last_words()}")

    def _last_words(self) -> str:
        logs = (log for log in (self._words, self._log) if log.exists())
        return " | ".join(line for log in logs for line in log.read_text(errors="replace").splitlines()[-8:])

    def _execute(self, statement: sql.Composed) -> None:
        with psycopg.connect(self.url(), autocommit=True) as conn:
            conn.execute(statement)
