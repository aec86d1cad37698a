"""The audit trail: each act with its principal, and every refusal, as JSON lines in a file.

| field       | says                                                                               |
|-------------|------------------------------------------------------------------------------------|
| `time`      | when, UTC                                                                          |
| `door`      | kafka, http, tinyq: the door that was asked                                        |
| `principal` | its name; `method`: how it authenticated, `address`: where it comes from           |
| `event`     | `access` (a right was used or refused), `authentication`, `policy` (a change)      |
| `action`, `resource` | the right that was asked for, and on which resource                       |
| `outcome`   | `allowed`, `refused`, `ok`, `failed`                                               |
| `reason`    | why not: the rule, or why a credential was refused                                 |
| `count`     | repeats since the last line; reads, writes, refusals, failures: one line a minute  |

No payload, key or secret is ever in it: no caller hands one in. Callers never wait for the disk: a thread
writes the lines that have gathered, every `_GATHER_SECONDS` at the latest, in one write to a file opened for
appending, so processes may share it. Lines are lost and counted when the buffer is full. A file that was
moved away is made again with the next lines. A kill loses the lines not written yet.

Repeated refusals are counted: for each principal, address, right and kind, the first refused names get a line
each, the rest one count. The same holds for failed logins from one network, by method and reason. So neither a
loop that repeats a request nor a list of made-up names fills the file.
"""

import logging
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Any

import msgspec

from penstock import metrics
from penstock.clock import SYSTEM, Clock

from .places import network_of
from .principal import Peer, Principal
from .resource import AccessRight, Resource

logger = logging.getLogger("penstock.access")
_EVERY_SECONDS = 60.0
_MOST_USES = 10_000
_LONGEST = 300  # characters of a name
_BUFFER_BYTES = 4 * 1024 * 1024  # of lines that are not written yet
_GATHER_SECONDS = 0.05
_JOIN_SECONDS = 5.0
_OFTEN = (AccessRight.READ, AccessRight.WRITE)
REST = "others"  # names that got no line of their own
_MOST_NAMES = 100  # of one principal, right and kind
_MOST_NAMES_OF_ALL = 10_000
_MOST_SOURCES = 1000  # principals with their rights and kinds
_RefusalSource = tuple[str, str, str, str, str]


# A principal, a right, a resource, a reason, and how often that was repeated since its line was written.
CountedRefusal = tuple[Principal, str, str, str, int]


@dataclass(slots=True)
class _CountsOfSource:
    principal: Principal
    right: str
    reason: str
    until: float
    names: dict[str, int] = field(default_factory=dict)
    rest: int = 0


class RefusalCounts:
    """The refusals of the last seconds, bounded. Safe from any thread."""

    def __init__(self, seconds: float) -> None:
        self._seconds, self._lock = seconds, Lock()
        self._sources: dict[_RefusalSource, _CountsOfSource] = {}
        self._untold: list[CountedRefusal] = []
        self._names = 0  # of all sources

    def is_first(self, principal: Principal, right: str, kind: str, name: str, reason: str, now: float) -> bool:
        """Count a refusal; return whether it has to be written now."""
        source = (principal.name, principal.door, principal.address, right, kind)
        with self._lock:
            found = self._sources.get(source)
            if found is not None and now >= found.until:
                self._forget(source)
                found = None
            if found is None:
                if len(self._sources) >= _MOST_SOURCES:
                    self._forget(next(iter(self._sources)))
                found = self._sources[source] = _CountsOfSource(principal, right, reason, now + self._seconds)
            if name in found.names:
                found.names[name] += 1
            elif len(found.names) < _MOST_NAMES and self._names < _MOST_NAMES_OF_ALL:
                found.names[name] = 0
                self._names += 1
                return True
            else:
                found.rest += 1
            return False

    def due(self, now: float) -> Iterator[CountedRefusal]:
        """Yield the counts that are due, and forget them."""
        with self._lock:
            for source in [source for source, each in self._sources.items() if now >= each.until]:
                self._forget(source)
            told, self._untold = self._untold, []
        yield from told

    def _forget(self, source: _RefusalSource) -> None:
        refused = self._sources.pop(source)
        self._names -= len(refused.names)
        who, right = refused.principal, refused.right
        self._untold += [(who, right, name, refused.reason, count) for name, count in refused.names.items() if count]
        if refused.rest:
            self._untold.append((who, right, REST, "", refused.rest))


class AuditTrail:
    """One file of lines. Safe from any thread; a failing disk is reported in the log and blocks no caller."""

    def __init__(self, path: Path, clock: Clock = SYSTEM) -> None:
        self._path, self._clock, self._lock = path, clock, Lock()
        self._writing = Lock()
        self._file: int | None = None
        self._inode: tuple[int, int] | None = None
        self._failed = False
        self._lines: list[bytes] = []
        self._bytes = 0  # of the lines above
        self._uses: dict[tuple[str, AccessRight, str], tuple[float, int]] = {}  # last line, uses since
        self._refusals, self._failures = RefusalCounts(_EVERY_SECONDS), RefusalCounts(_EVERY_SECONDS)
        self._due, self._ended = Event(), Event()
        self._thread: Thread | None = None

    def open(self) -> None:
        """Make sure that the file can be written, and start the writer. Raises OSError."""
        with self._writing:
            self._reopened()
        self._thread = Thread(target=self._run, name="penstock-audit", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Write the remaining counts and lines, and close."""
        self._ended.set()
        self._due.set()
        if self._thread is not None:
            self._thread.join(_JOIN_SECONDS)
            self._thread = None
        for (name, right, resource), (_, count) in tuple(self._uses.items()):
            if count:
                used = {"action": right, "resource": resource, "outcome": "allowed", "count": count}
                self.write(event="access", principal=name, **used)
        self._uses = {}
        self._tell_refusals(now=float("inf"))
        self.flush()
        with self._writing:
            if self._file is not None:
                os.close(self._file)
                self._file = None

    def used(self, principal: Principal, right: AccessRight, resource: Resource) -> None:
        """Record the use of a right. Describing is not recorded, reads and writes once a minute."""
        if right is AccessRight.DESCRIBE:
            return
        if right not in _OFTEN:
            self.asked(principal, right, resource, "allowed")
            return
        key, now = (principal.name, right, str(resource)[:_LONGEST]), self._clock.monotonic()
        told, count = self._uses.get(key, (-_EVERY_SECONDS, 0))
        if now - told < _EVERY_SECONDS:
            self._uses[key] = told, count + 1
            return
        if len(self._uses) >= _MOST_USES:
            self._uses = {}
        self._uses[key] = now, 0
        self.asked(principal, right, resource, "allowed", count=count + 1)

    def refused(self, principal: Principal, right: AccessRight, resource: Resource, reason: str) -> None:
        """Record a refusal: the first as a line, repetitions as a count once a minute."""
        name, now = str(resource)[:_LONGEST], self._clock.monotonic()
        if self._refusals.is_first(principal, right, resource.kind, name, reason, now):
            self.asked(principal, right, resource, "refused", reason=reason)

    def failed(self, peer: Peer, method: str, name: str, reason: str) -> None:
        """Note a failed login: the first of a name, network and reason as a line, then as a count."""
        network = Principal("", network_of(peer.address), method, door=peer.door)
        why, now = reason.partition(";")[0], self._clock.monotonic()  # the rest is how long it still takes
        if self._failures.is_first(network, method, why, name, why, now):
            self._tell_failure(network._replace(name=name, address=peer.address), reason=reason)

    def asked(self, principal: Principal, right: AccessRight, resource: Resource, outcome: str, **more: Any) -> None:
        """Write that a principal asked for a right."""
        self.write_of(principal, event="access", action=right, resource=str(resource), outcome=outcome, **more)

    def write_of(self, who: Principal, event: str, **more: Any) -> None:
        """Add a line about a principal."""
        self.write(event=event, door=who.door, principal=who.name, method=who.method, address=who.address, **more)

    def write(self, **fields: Any) -> None:
        """Add a line."""
        now = datetime.fromtimestamp(self._clock.now_ms() / 1000, UTC)
        said = {key: value[:_LONGEST] if isinstance(value, str) else value for key, value in fields.items()}
        line = msgspec.json.encode({"time": now.isoformat(timespec="milliseconds"), **said}) + b"\n"
        with self._lock:
            is_full = self._bytes + len(line) > _BUFFER_BYTES
            if not is_full:
                self._lines.append(line)
                self._bytes += len(line)
        if is_full:
            self._lost(1, "more is told than the disk takes")
        self._due.set()

    def flush(self) -> None:
        """Write the lines that have gathered."""
        with self._writing:
            with self._lock:
                lines, self._lines, self._bytes = self._lines, [], 0
            if not lines:
                return
            try:
                data = memoryview(b"".join(lines))
                file = self._reopened()
                while data:
                    data = data[os.write(file, data) :]
                self._failed = False
            except OSError as exc:
                self._lost(len(lines), exc.strerror or "it is closed")

    def _lost(self, count: int, why: str) -> None:
        metrics.AUDIT_FAILURES.add(count)
        if not self._failed:
            self._failed = True
            logger.error("audit lines are lost: %s cannot be written: %s", self._path, why)

    def _run(self) -> None:
        while not self._ended.is_set():
            self._due.wait(_EVERY_SECONDS)
            self._due.clear()
            self._tell_refusals(self._clock.monotonic())
            self.flush()
            self._ended.wait(_GATHER_SECONDS)

    def _tell_refusals(self, now: float) -> None:
        for principal, right, resource, reason, count in self._refusals.due(now):
            said = {} if resource == REST else {"reason": reason}
            line = {"action": right, "resource": resource, "outcome": "refused", "count": count}
            self.write_of(principal, event="access", **line, **said)
        for network, _, name, reason, count in self._failures.due(now):
            said = {} if name == REST else {"reason": reason}
            self._tell_failure(network._replace(name=name), count=count, **said)

    def _tell_failure(self, who: Principal, **more: Any) -> None:
        self.write_of(who, event="authentication", outcome="failed", **more)

    def _reopened(self) -> int:
        """Return the open file; open it again if its name now belongs to another file or to none."""
        try:
            found = os.stat(self._path)
            there = (found.st_dev, found.st_ino)
        except FileNotFoundError:
            there = None
        if self._file is None or there != self._inode:
            if self._file is not None:
                os.close(self._file)
                self._file = None
            self._file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
            opened = os.fstat(self._file)
            self._inode = (opened.st_dev, opened.st_ino)
        return self._file
