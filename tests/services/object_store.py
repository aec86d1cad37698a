"""An S3 in a process of its own: moto's server, on the loopback, with all its objects in memory."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.request import Request, urlopen

ROOT = Path(__file__).resolve().parents[2]
SECRET = "a-secret-that-nobody-may-see"


class ObjectStoreUnavailable(Exception):
    """Its package is not installed, or it did not start."""


class ObjectStore:
    """The server, from its start to its end. It asks nobody who they are, unless it is told to."""

    def __init__(self) -> None:
        self._numbers = count(1)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.services.object_store_server"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        self.url = self._process.stdout.readline().strip()
        if not self.url:
            self.stop()
            raise ObjectStoreUnavailable("it did not start: is moto[server] installed?")

    @property
    def pid(self) -> int:
        """Its process."""
        return self._process.pid

    def environment(self) -> dict[str, str]:
        """Return the variables by which a process reaches it."""
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ALLOW_HTTP": "true",
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": "tester",
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def bucket(self) -> str:
        """Make a bucket and return its name."""
        name = f"lakes-{next(self._numbers)}"
        self._ask(Request(f"{self.url}/{name}", method="PUT"))
        return name

    def look_at_keys(self, *, from_now_on: bool) -> None:
        """Refuse whoever is not known, which is everybody; or let everybody in again."""
        allowed = b"0" if from_now_on else b"1000000000"
        plain = {"Content-Type": "text/plain"}
        self._ask(Request(f"{self.url}/moto-api/reset-auth", allowed, plain, method="POST"))

    def parts_in_flight(self) -> int:
        """Return how many parts of uploads were under way together at most, since this was last asked."""
        return int(self._ask(Request(f"{self.url}/parts-in-flight")))

    @contextmanager
    def out_of_order(self, pattern: str) -> Iterator[None]:
        """Be out of order for requests that fit, as in `PUT .*json`; what it answers quotes the secret."""
        self._ask(Request(f"{self.url}/out-of-order", f"{pattern}\n{SECRET}".encode(), method="PUT"))
        try:
            yield
        finally:
            self._ask(Request(f"{self.url}/out-of-order", b"", method="PUT"))

    def stop(self) -> None:
        """End it; its objects go with it."""
        self._process.kill()
        self._process.communicate()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    def _ask(self, request: Request) -> bytes:
        with urlopen(request, timeout=30) as answer:
            content: bytes = answer.read()
        return content
