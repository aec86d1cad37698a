"""Java packages of rivals, fetched by Maven at their first use and kept below `.bench/jars/`.

A folder is named after what is in it. Its mark is written last: a folder without the mark is made again.
"""

import hashlib
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from bench.errors import NotMeasured
from bench.home import HOME

_MARK = "complete"
_COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>local</groupId><artifactId>{name}</artifactId><version>1</version><packaging>pom</packaging>
<dependencies>{dependencies}</dependencies></project>
"""
_DEPENDENCY = """
<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version><exclusions>
 <exclusion><groupId>org.scala-lang</groupId><artifactId>scala-library</artifactId></exclusion>
 <exclusion><groupId>com.google.code.findbugs</groupId><artifactId>jsr305</artifactId></exclusion>
</exclusions></dependency>"""  # Spark has the first; the second are annotations, which not all mirrors have


@dataclass(frozen=True, kw_only=True)
class JavaPackages:
    """Packages (`group:artifact:version`) with all that they need."""

    name: str
    artifacts: tuple[str, ...]
    home: Path = field(default=HOME)

    @property
    def folder(self) -> Path:
        """Where their jars are."""
        contents = "\n".join(self.artifacts)
        return self.home / "jars" / f"{self.name}-{hashlib.sha256(contents.encode()).hexdigest()[:12]}"

    def jars(self) -> list[Path]:
        """Return the jars, fetched unless they are there. Raises NotMeasured when they cannot be had."""
        if not (self.folder / _MARK).exists():
            self._fetch()
        return sorted(self.folder.glob("*.jar"))

    def _fetch(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        dependencies = "".join(_DEPENDENCY.format(*each.split(":")) for each in self.artifacts)
        (self.folder / "pom.xml").write_text(_POM.format(name=self.name, dependencies=dependencies))
        command = ["mvn", "-B", "-q", _COPY, f"-DoutputDirectory={self.folder}", "-DincludeScope=runtime"]
        try:
            done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, check=False)
        except FileNotFoundError as exc:
            raise NotMeasured(f"{self.name} comes from Maven, and there is no mvn here") from exc
        if done.returncode:
            raise NotMeasured(f"Maven could not fetch {self.name}: {done.stdout[-300:]}")
        (self.folder / _MARK).touch()
