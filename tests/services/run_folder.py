"""A temporary folder that lives as long as one process, its owner, however that process ends.

Services of a test run keep their files in it and are shared through it: the owner makes the folder,
the processes beside it (xdist workers) get its path. The owner holds a lock on `owner.lock`. A
service that leaves a daemon behind also leaves a guardian (`guardian.py`), which waits for that lock
and so cleans up even after a SIGKILL.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import IO, Self

ROOT = Path(__file__).resolve().parents[2]
# The address of a Unix socket holds 104 bytes on some systems; the rest of its name needs 40.
LONGEST_SOCKET_FOLDER = 64


class RunFolder:
    """The owner's hold on the folder.

    Crash: the lock falls with the process, the folder stays and the guardian removes it.
    """

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="penstock-", dir=_parent()))
        if os.geteuid() == 0:
            # Daemons that refuse to run as root run as another account and must get to their files.
            self.path.chmod(0o711)
        self._lock: IO[str] = owner_lock(self.path).open("w")
        fcntl.flock(self._lock, fcntl.LOCK_EX)

    def close(self) -> None:
        """Remove the folder and let the guardians go; stop the services first. May be called twice."""
        shutil.rmtree(self.path, ignore_errors=True)
        self._lock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def owner_lock(folder: Path) -> Path:
    """Name the file that the owner of `folder` keeps locked while it lives."""
    return folder / "owner.lock"


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Hold a lock between processes; the system releases it when a holder dies."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def leave_guardian(folder: Path) -> None:
    """Leave a guardian of `folder` behind, in a session of its own so that Ctrl-C passes it by."""
    command = [sys.executable, "-m", "tests.services.guardian", str(folder)]
    # Through a shell that ends at once: the guardian is nobody's child, so nobody has to wait for it.
    subprocess.run(
        ["sh", "-c", '"$@" </dev/null >/dev/null 2>&1 &', "sh", *command], cwd=ROOT, start_new_session=True, check=True
    )


def _parent() -> Path:
    """Prefer the user's temporary folder; take /tmp when that one is too long or closed to others."""
    preferred = Path(tempfile.gettempdir())
    closed = os.geteuid() == 0 and not all(folder.stat().st_mode & 0o001 for folder in (preferred, *preferred.parents))
    return Path("/tmp") if closed or len(str(preferred)) > LONGEST_SOCKET_FOLDER else preferred
