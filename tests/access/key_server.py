"""A server of the keys of tokens, as an issuer has one: what it answers can be changed while it runs."""

import json
import ssl
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

import jwt


def jwks(**keys: Any) -> str:
    """Return the document of some private keys of RSA, by their ids."""
    made = [
        json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(key.public_key())) | {"kid": name, "use": "sig"}
        for name, key in keys.items()
    ]
    return json.dumps({"keys": made})


class KeyServer:
    """Serves one document, between `with` and its end."""

    def __init__(self, document: str, certificates: Path | None = None) -> None:
        """`certificates`: the folder of its own, for HTTPS."""
        self.document, self.status, self.headers = document.encode(), 200, dict[str, str]()
        self.asked: list[str] = []  # the paths
        self.before: Callable[[], object] = lambda: None  # called while a client waits
        self.between: Callable[[], object] = lambda: None  # called while it waits for the document
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                server.asked.append(self.path)
                server.before()
                self.send_response(server.status)
                for name, value in server.headers.items():
                    self.send_header(name, value)
                self.send_header("content-length", str(len(server.document)))
                self.end_headers()
                server.between()
                self.wfile.write(server.document)

            def log_message(self, format: str, *args: Any) -> None:
                """Say nothing."""

        class Quiet(ThreadingHTTPServer):
            def handle_error(self, request: Any, client_address: Any) -> None:
                """Say nothing of clients that leave."""

        self._server = Quiet(("127.0.0.1", 0), Handler)
        self.scheme = "http" if certificates is None else "https"
        if certificates is not None:
            context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            context.load_cert_chain(certificates / "server.pem", certificates / "server.key")
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def url(self) -> str:
        """Where the document is."""
        return f"{self.scheme}://127.0.0.1:{self._server.server_address[1]}/keys?of=shop"

    def close(self) -> None:
        """End: from now on nobody listens there."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._thread.is_alive():
            self.close()
