"""The audit trail: who did what, and every refusal, as JSON lines in a file.

| field       | says                                                                               |
|-------------|------------------------------------------------------------------------------------|
| `time`      | when, UTC                                                                          |
| `door`      | kafka, http, tinyq: where it was asked                                             |
| `principal` | who; `method` how that is known, `address` from where                              |
| `event`     | `access` (a right was used or refused), `authentication`, `policy` (a change)      |
| `action`, `resource` | what was asked, and of what                                               |
| `outcome`   | `allowed`, `refused`, `ok`, `failed`                                               |
| `reason`    | why not: the rule, or what did not hold                                            |
| `count`     | how often since the line before; reads and writes are told once a minute           |

Never a payload, a key or a secret: no caller hands one in. Each line is one write to a file that is opened
for appending, so processes may share it. A file that was moved away is made again with the next line.
"""

import logging
import os
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock
from typing import Any

import msgspec

from penstock import metrics
from penstock.clock import SYSTEM, Clock

from .principal import Principal
from .resource import AccessRight, Resource

logger = logging.getLogger("penstock.access")

_EVERY_SECONDS = 60.0
_MOST_USES = 10_000
_LONGEST = 300  # characters of a name
_OFTEN = (AccessRight.READ, AccessRight.WRITE)


class AuditTrail:
    """One file of lines. Safe from any thread; a disk that fails is told, and stops nobody."""

    def __init__(self, path: Path, clock: Clock = SYSTEM) -> None:
        self._path, self._clock, self._lock = path, clock, Lock()
        self._file: int | None = None
        self._inode: tuple[int, int] | None = None
        self._failed = False
        self._uses: dict[tuple[str, AccessRight, Resource], tuple[float, int]] = {}  # last told, count since

    def open(self) -> None:
        """Make sure that the file can be written. Raises OSError."""
        with self._lock:
            self._reopened()

    def close(self) -> None:
        """Tell what was counted, and close."""
        for (name, right, resource), (_, count) in tuple(self._uses.items()):
            if count:
                self.write(
                    event="access",
                    principal=name,
                    action=right,
                    resource=str(resource),
                    outcome="allowed",
                    count=count,
                )
        self._uses = {}
        with self._lock:
            if self._file is not None:
                os.close(self._file)
                self._file = None

    def used(self, principal: Principal, right: AccessRight, resource: Resource) -> None:
        """Note that somebody used a right. Describing is not told, reads and writes once a minute."""
        if right is AccessRight.DESCRIBE:
            return
        if right not in _OFTEN:
            self.asked(principal, right, resource, "allowed")
            return
        key, now = (principal.name, right, resource), self._clock.monotonic()
        told, count = self._uses.get(key, (-_EVERY_SECONDS, 0))
        if now - told < _EVERY_SECONDS:
            self._uses[key] = told, count + 1
            return
        if len(self._uses) >= _MOST_USES:
            self._uses = {}
        self._uses[key] = now, 0
        self.asked(principal, right, resource, "allowed", count=count + 1)

    def asked(
        self, principal: Principal, right: AccessRight, resource: Resource, outcome: str, **more: Any
    ) -> None:
        """Tell that somebody asked for something."""
        self.write(
            event="access",
            door=principal.door,
            principal=principal.name,
            method=principal.method,
            address=principal.address,
            action=right,
            resource=str(resource),
            outcome=outcome,
            **more,
        )

    def write(self, **fields: Any) -> None:
        """Add a line."""
        now = datetime.fromtimestamp(self._clock.now_ms() / 1000, UTC)
        said = {key: value[:_LONGEST] if isinstance(value, str) else value for key, value in fields.items()}
        line = msgspec.json.encode({"time": now.isoformat(timespec="milliseconds"), **said}) + b"\n"
        with self._lock:
            try:
                os.write(self._reopened(), line)
                self._failed = False
            except OSError as exc:
                metrics.AUDIT_FAILURES.add()
                if not self._failed:
                    self._failed = True
                    logger.error(
                        "audit lines are lost: %s cannot be written: %s",
                        self._path,
                        exc.strerror or "it is closed",
                    )

    def _reopened(self) -> int:
        """Return the file, opened again where another, or none, has its name now."""
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
