"""Keeps the policy up to date: access file, keys behind a URL, rules in the database, certificates.

A thread compares their bytes every second; a file that is being written is read again at the next look. A
broken file changes nothing: the last good version stays in force, and a log line and a series report the
failure until it is mended.
"""

import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from penstock import metrics
from penstock.clock import SYSTEM, Clock
from penstock.database.database import Database
from penstock.errors import AccessError, Error, InvalidAccessFile, InvalidCertificate, LeftOpen, MissingExtra
from penstock.redaction import words

from .access import Access
from .access_file import AccessFile
from .policy import AccessPolicy
from .principal import Principal
from .remote_keys import LookThread, RemoteKeys
from .rule import stored_rules
from .tls import ServerTls

logger = logging.getLogger("penstock.access")

_STEADY_SECONDS, _STEADY_LOOKS = 0.05, 20  # within which a writer has to finish the file

OURS = Principal("penstock", method="process")


class AccessWatch(LookThread):
    """Puts changes in force, between `start` and `stop`."""

    def __init__(
        self,
        access: Access,
        *,
        path: Path | None = None,
        database: Database | None = None,
        tls: ServerTls | None = None,
        look_seconds: float = 1.0,
        clock: Clock = SYSTEM,
    ) -> None:
        """`path`: the access file. Sources that are None are not watched."""
        super().__init__("penstock-access", look_seconds, "a look at who may do what failed")
        self._access, self._path, self._database, self._tls = access, path, database, tls
        self._clock = clock
        self._read: dict[Path, bytes] = {}
        self._shown: dict[Path, bytes] = {}
        self._keys: RemoteKeys | None = None
        self._broken: dict[str, str] = {}  # by file: the failure that was logged

    def load(self, *, waits: bool = False) -> None:
        """Put everything in force for the first time; here a broken source is an error. Raises AccessError.

        `waits`: rules of a database that cannot be read now come into force when it can.
        """
        if self._path is not None:
            self._access.install(self._policy())
        if self._database is not None and waits:
            self._look_at_database(self._database)
        elif self._database is not None:
            self._access.install(stored=self._database.look(stored_rules))
        if self._tls is not None:
            self._shown = _contents(self._tls.files.paths())
            self._access.revoke(self._tls.revoked)
        for file in ("access", "tls"):
            metrics.ACCESS_STALE.set(0, file=file)
        self._look_at_keys()

    def start(self) -> None:
        """Start the thread, and that of the keys."""
        super().start()
        if self._keys is not None:
            self._keys.start()

    def stop(self) -> None:
        """Stop the threads."""
        super().stop()
        if self._keys is not None:
            self._keys.stop()

    def look(self) -> None:
        """Check all sources once, in the caller's thread."""
        if self._path is not None and self._is_changed([self._path, *self._read], self._read):
            self._take("access", lambda: self._access.install(self._policy()))
        if self._tls is not None:
            if self._is_changed(self._tls.files.paths(), self._shown):
                self._take("tls", self._look_at_certificates)
            self._look_at_end(self._tls)
        self._look_at_keys()
        if self._database is not None:
            self._look_at_database(self._database)

    def _is_changed(self, paths: list[Path], known: dict[Path, bytes]) -> bool:
        """Return whether files have changed, once their writers have finished.

        Half an access file names fewer principals than the whole one, and may open a door that the rest closes.
        """
        found = _contents(paths)
        if found == known:
            return False
        for _ in range(_STEADY_LOOKS):
            self._stopped.wait(_STEADY_SECONDS)
            before, found = found, _contents(paths)
            if found == before:
                break
        return found != known

    def _look_at_certificates(self) -> None:
        assert self._tls is not None
        shown = _contents(self._tls.files.paths())
        try:
            self._tls.reload()
            self._access.revoke(self._tls.revoked)
        finally:
            self._shown = shown

    def _look_at_end(self, tls: ServerTls) -> None:
        """Log that the list of revoked certificates has run out since it was read."""
        ends = tls.revoked.ends
        if ends is not None and self._clock.now_ms() / 1000 >= ends:
            why = "it has run out, so no client certificate is taken; put the authority's current list there"
            self._say("tls", InvalidCertificate(str(tls.files.client_crl), why))

    def _look_at_keys(self) -> None:
        """Log whether the keys of tokens could be fetched; a thread of their own fetches them."""
        if self._keys is not None and self._keys.failure:
            self._say("keys", InvalidAccessFile(str(self._path), self._keys.failure))
            return
        metrics.ACCESS_STALE.set(0, file="keys")
        if self._broken.pop("keys", None) is not None:
            self._taken("keys", "")

    def _look_at_database(self, database: Database) -> None:
        if database.dialect.missing_file() is not None:
            return  # the look itself would create the file
        try:
            found = tuple(database.look(stored_rules))
            if is_new := found != self._access.stored:
                self._access.install(stored=found)
        except AccessError as exc:
            self._say("database", exc)
            return
        except Error as exc:
            logger.debug("rules were not read: %s", words(exc))  # the store is away; what holds goes on
            return
        if is_new:
            self._taken("database", f"{len(found)} rules")
        if self._broken.pop("database", None) is not None:
            metrics.ACCESS_STALE.set(0, file="database")

    def _take(self, file: str, work: Callable[[], None]) -> None:
        try:
            work()
        except (AccessError, MissingExtra) as exc:
            self._say(file, exc)
        else:
            self._broken.pop(file, None)
            metrics.ACCESS_STALE.set(0, file=file)
            self._taken(file, "")

    def _taken(self, file: str, what: str) -> None:
        metrics.ACCESS_RELOADS.add(file=file, outcome="ok")
        logger.info("a change is in force: %s %s", file, what)
        self._access.audit(OURS, "policy", file, "ok")

    def _say(self, file: str, error: Error) -> None:
        said = str(error)
        metrics.ACCESS_STALE.set(1, file=file)
        if self._broken.get(file) != said:
            self._broken[file] = said
            metrics.ACCESS_RELOADS.add(file=file, outcome="failed")
            logger.error("what was in force stays: %s", said)
            self._access.audit(OURS, "policy", file, "failed", reason=said)

    def _policy(self) -> AccessPolicy:
        assert self._path is not None
        reading = AccessFile(self._path, self._clock)
        try:
            policy = reading.load()
            self._access.check_locked(policy, self._access.stored, f"access file {self._path}")
        except LeftOpen:
            reading.read = {}  # look again: a rule in the database lets it take effect
            raise
        finally:
            self._read = reading.read
        return self._with_keys(policy)

    def _with_keys(self, policy: AccessPolicy) -> AccessPolicy:
        """Keep the known keys if the file names the same URL; else fetch the keys of the new one."""
        new, old = policy.remote_keys, self._keys
        if new is not None and old is not None and (new.rules, new.at) == (old.rules, old.at):
            return replace(policy, jwt=old.verifier, remote_keys=old)
        if new is not None:
            new.look()
            if self._thread is not None:
                new.start()
        self._keys = new
        if old is not None:
            old.stop()
        return policy


def _contents(paths: list[Path]) -> dict[Path, bytes]:
    """Return the contents of files; empty for one that cannot be read."""
    found = dict.fromkeys(paths, b"")
    for path in paths:
        with suppress(OSError):
            found[path] = path.read_bytes()
    return found
