"""A worker that is started behind a pooler while PostgreSQL is away waits, and ends when it is told to."""

from __future__ import annotations

import os
import signal
import socket
import struct
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from threading import Thread

import pytest

from tests.crash.children import ROOT, SOURCE

APP = """
from penstock import Outbox
outbox = Outbox({url!r})
@outbox.handler("t", group="g")
def handle(record): pass
"""
WORKER = [sys.executable, "-c", "from penstock.cli import main; main()", "worker", "app:outbox"]
REFUSAL = b"server login has been failing, try again later (server_login_retry)"


class EmptyPooler:
    """Takes clients as PgBouncer does while its server is away: it lets them in, and fails what they ask."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        port = self._listener.getsockname()[1]
        self.url = f"postgresql://someone@127.0.0.1:{port}/shop?sslmode=disable&gssencmode=disable"
        Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                Thread(target=self._serve, args=[client], daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, suppress(OSError):
            client.recv(65536)
            client.sendall(_message(b"R", struct.pack(">i", 0)) + _message(b"Z", b"I"))
            client.recv(65536)
            fields = b"SFATAL\0VFATAL\0C08P01\0M" + REFUSAL + b"\0\0"
            client.sendall(_message(b"E", fields))


def _message(kind: bytes, body: bytes) -> bytes:
    return kind + struct.pack(">i", len(body) + 4) + body


@pytest.mark.slow
def test_a_worker_waits_for_the_server_behind_a_pooler_and_ends_when_told(tmp_path: Path) -> None:
    pooler = EmptyPooler()
    (tmp_path / "app.py").write_text(APP.format(url=pooler.url))
    env = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, (SOURCE, ROOT, tmp_path)))}
    worker = subprocess.Popen(
        WORKER, cwd=tmp_path, env=env, stderr=subprocess.STDOUT, stdout=subprocess.PIPE, text=True
    )
    try:
        assert worker.stdout is not None
        said = []
        for line in worker.stdout:
            said.append(line)
            if "waits and retries" in line or "cannot reach" in line or "try again" in line:
                break
        assert worker.poll() is None, "".join(said)
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(60) == 0, "".join(said)
    finally:
        worker.kill()
        worker.communicate()
        pooler.close()
