"""moto's S3 as a program, which makes one change after the other and ends with its owner.

moto looks whether the condition of a put holds and then puts, in two steps: of two requests at once both may
pass. A store does it as one step, and so does this. It can be told to be out of order for some requests. The
first line it prints is its address.
"""

from __future__ import annotations

import logging
import os
import re
import sys
from threading import Lock, Thread
from typing import Any

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

OUT_OF_ORDER, PARTS_IN_FLIGHT = "/out-of-order", "/parts-in-flight"


class OnlyS3(DomainDispatcherApplication):
    """moto with one of its services. To find out which is meant, it reads a folder for each request."""

    def get_backend_for_host(self, host: str | None) -> str:
        return host if host == "moto_api" else "s3"


class OneChangeAtATime:
    """An application whose requests that change something wait for each other."""

    def __init__(self, app: Any) -> None:
        self._app, self._changes = app, Lock()

    def __call__(self, environ: Any, start_response: Any) -> Any:
        if environ["REQUEST_METHOD"] in ("GET", "HEAD"):
            return self._app(environ, start_response)
        with self._changes:
            return list(self._app(environ, start_response))


class OutOfOrder:
    """An application that answers 503 to requests whose method and path fit a pattern that was put to it.

    The answer quotes what came with the pattern after its first line, as one that quotes a request might.
    """

    def __init__(self, app: Any) -> None:
        self._app, self._fitting, self._quoted = app, re.compile("(?!)"), b""

    def __call__(self, environ: Any, start_response: Any) -> Any:
        if environ["PATH_INFO"] == OUT_OF_ORDER:
            body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
            pattern, _, self._quoted = body.partition(b"\n")
            self._fitting = re.compile(pattern.decode() or "(?!)")
            start_response("200 OK", [])
            return [b""]
        if self._fitting.match(f"{environ['REQUEST_METHOD']} {environ['PATH_INFO']}"):
            start_response("503 Service Unavailable", [])
            return [b"<Error><Code>SlowDown</Code><Message>" + self._quoted + b"</Message></Error>"]
        return self._app(environ, start_response)


class PartsInFlight:
    """An application that knows how many parts of uploads were under way together since it was asked."""

    def __init__(self, app: Any) -> None:
        self._app, self._lock, self._now, self._most = app, Lock(), 0, 0

    def __call__(self, environ: Any, start_response: Any) -> Any:
        if environ["PATH_INFO"] == PARTS_IN_FLIGHT:
            start_response("200 OK", [])
            most, self._most = self._most, 0
            return [str(most).encode()]
        if "partNumber=" not in environ.get("QUERY_STRING", ""):
            return self._app(environ, start_response)
        with self._lock:
            self._now += 1
            self._most = max(self._most, self._now)
        try:
            return list(self._app(environ, start_response))
        finally:
            with self._lock:
                self._now -= 1


def end_with_owner() -> None:
    """End when the owner closes our input, as its death does."""
    sys.stdin.read()
    os._exit(0)


def main() -> None:
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    changes = OneChangeAtATime(OnlyS3(create_backend_app))
    app = PartsInFlight(OutOfOrder(changes))
    server = make_server("127.0.0.1", 0, app, threaded=True)
    Thread(target=end_with_owner, daemon=True).start()
    print(f"http://127.0.0.1:{server.port}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
