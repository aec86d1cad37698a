"""Jars from Maven, by their names, kept between runs; and the Java programs that use them."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.services import missing

KAFKA = "4.3.1"
FETCH_SECONDS = 500
_COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>penstock.local</groupId><artifactId>jars</artifactId><version>1</version><packaging>pom</packaging>
<dependencies>{dependencies}</dependencies></project>"""
_DEPENDENCY = (
    "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version>"
    "<exclusions><exclusion><groupId>org.scala-lang</groupId><artifactId>scala-library</artifactId></exclusion>"
    "</exclusions></dependency>"
)
_PLAIN = "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version></dependency>"
SERVER = (
    f"org.apache.kafka:kafka_2.13:{KAFKA}",
    f"org.apache.kafka:kafka-tools:{KAFKA}",
    "org.apache.logging.log4j:log4j-slf4j-impl:2.25.1",
    "org.apache.logging.log4j:log4j-core:2.25.1",
)


def cache(name: str) -> Path:
    """Return a folder that stays between runs."""
    home = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "penstock" / name
    home.mkdir(parents=True, exist_ok=True)
    return home


def jars(name: str, *artifacts: str, with_scala: bool = True) -> Path:
    """Return a folder with some artifacts and all that they need; skips where there are none to be had."""
    java, maven = shutil.which("java"), shutil.which("mvn")
    if java is None or maven is None:
        missing("Java", "java and mvn are not installed (Debian: default-jdk-headless, maven)")
    home = cache(name)
    done = home / "done"
    if not done.exists():
        form = _PLAIN if with_scala else _DEPENDENCY
        said = "".join(form.format(*each.split(":")) for each in artifacts)
        (home / "pom.xml").write_text(_POM.format(dependencies=said))
        command = [maven, "-B", "-q", _COPY, f"-DoutputDirectory={home / 'lib'}", "-DincludeScope=runtime"]
        try:
            got = subprocess.run(command, cwd=home, capture_output=True, text=True, timeout=FETCH_SECONDS, check=False)
        except subprocess.TimeoutExpired:
            pytest.skip(f"Maven did not bring {artifacts[0]} in {FETCH_SECONDS} s")
        if got.returncode:
            pytest.skip(f"Maven does not have {artifacts[0]} here: {got.stdout[-300:]}")
        done.touch()
    return home / "lib"


def kafka_jars() -> Path:
    """Return the jars of Apache Kafka: server, tools and clients."""
    return jars(f"kafka-{KAFKA}", *SERVER)
