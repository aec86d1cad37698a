"""moto's S3 as a program, which makes one change after the other and ends with its owner.

moto looks whether the condition of a put holds and then puts, in two steps: of two requests at once both may
pass. A store does it as one step, and so does this. The first line it prints is its address.
"""

from __future__ import annotations

import logging
import os
import sys
from threading import Lock, Thread
from typing import Any

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server


class OneChangeAtATime:
    """An application whose requests that change something wait for each other."""

    def __init__(self, app: Any) -> None:
        self._app, self._changes = app, Lock()

    def __call__(self, environ: Any, start_response: Any) -> Any:
        if environ["REQUEST_METHOD"] in ("GET", "HEAD"):
            return self._app(environ, start_response)
        with self._changes:
            return list(self._app(environ, start_response))


def end_with_owner() -> None:
    """End when the owner closes our input, as its death does."""
    sys.stdin.read()
    os._exit(0)


def main() -> None:
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    app = OneChangeAtATime(DomainDispatcherApplication(create_backend_app))
    server = make_server("127.0.0.1", 0, app, threaded=True)
    Thread(target=end_with_owner, daemon=True).start()
    print(f"http://127.0.0.1:{server.port}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
