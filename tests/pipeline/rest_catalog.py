"""A REST catalog of Iceberg tables for the tests: the requests of the protocol, answered by one in a file."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock, Thread
from typing import Any
from urllib.parse import unquote, urlsplit

from pyiceberg.catalog.rest import CreateTableRequest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.table import CommitTableRequest


class _Named:
    """As much of a table as a commit asks for."""

    def __init__(self, name: tuple[str, str]) -> None:
        self._name = name

    def name(self) -> tuple[str, str]:
        return self._name


class _Handler(BaseHTTPRequestHandler):
    catalog: SqlCatalog
    lock: Lock

    def log_message(self, *_: Any) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        self._answer(self._get)

    def do_HEAD(self) -> None:
        self._answer(self._head)

    def do_POST(self) -> None:
        self._answer(self._post)

    def do_DELETE(self) -> None:
        self._answer(self._delete)

    def _answer(self, work: Any) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts = [unquote(each) for each in urlsplit(self.path).path.strip("/").split("/")]
        try:
            with self.lock:
                status, said = work(parts, body)
        except NoSuchTableError as exc:
            status, said = 404, _error(exc, 404)
        except (CommitFailedException, NamespaceAlreadyExistsError, TableAlreadyExistsError) as exc:
            status, said = 409, _error(exc, 409)
        content = b"" if said is None else said.encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _get(self, parts: list[str], _: bytes) -> tuple[int, str | None]:
        if parts == ["v1", "config"]:
            return 200, json.dumps({"defaults": {}, "overrides": {}})
        return 200, _loaded(self.catalog.load_table((parts[2], parts[4])))

    def _head(self, parts: list[str], _: bytes) -> tuple[int, str | None]:
        return (204 if self.catalog.table_exists((parts[2], parts[4])) else 404), None

    def _delete(self, parts: list[str], _: bytes) -> tuple[int, str | None]:
        self.catalog.drop_table((parts[2], parts[4]))
        return 204, None

    def _post(self, parts: list[str], body: bytes) -> tuple[int, str | None]:
        if len(parts) == 2:
            wanted = json.loads(body)
            self.catalog.create_namespace(tuple(wanted["namespace"]))
            return 200, json.dumps({"namespace": wanted["namespace"], "properties": {}})
        if parts[3:] == ["register"]:
            given = json.loads(body)
            name = parts[2], given["name"]
            return 200, _loaded(self.catalog.register_table(name, given["metadata-location"]))
        if len(parts) == 4:
            made = CreateTableRequest.model_validate_json(body)
            assert made.stage_create, "it is made with its properties, in one commit"
            if self.catalog.table_exists((parts[2], made.name)):
                raise TableAlreadyExistsError(made.name)
            staged = self.catalog._create_staged_table(
                (parts[2], made.name), made.table_schema, made.location, properties=made.properties
            )
            return 200, _loaded(staged)
        asked = CommitTableRequest.model_validate_json(body)
        named: Any = _Named((parts[2], parts[4]))
        self.catalog.commit_table(named, asked.requirements, asked.updates)
        return 200, _loaded(self.catalog.load_table((parts[2], parts[4])))


def _loaded(table: Any) -> str:
    where = json.dumps(table.metadata_location)
    return f'{{"metadata-location": {where}, "metadata": {table.metadata.model_dump_json()}, "config": {{}}}}'


def _error(exc: Exception, code: int) -> str:
    return json.dumps({"error": {"message": str(exc), "type": type(exc).__name__, "code": code}})


@contextmanager
def rest_catalog(folder: Path, **options: str) -> Iterator[str]:
    """Give the address of a REST catalog that lives in a folder; `options`: how it reaches tables."""
    uri = f"sqlite:///{folder}/server.db"
    catalog = SqlCatalog("server", uri=uri, warehouse=f"file://{folder}", **options)
    handler = type("Handler", (_Handler,), {"catalog": catalog, "lock": Lock()})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = Thread(target=server.serve_forever, name="rest-catalog")
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
        catalog.close()
