"""Build the wheel and its bill of materials: `python -m tools.bill dist`.

The bill is a CycloneDX file beside the wheel. It names the wheel by its hash, and every package that Penstock
with all its extras brings along, in the version that this environment has: that of constraints.txt.
"""

import hashlib
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.dependency import Dependency
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL
from packaging.requirements import Requirement

NAME = "penstock-outbox"


def needed(of: Distribution, extras: frozenset[str]) -> Iterator[tuple[Distribution, frozenset[str]]]:
    """Yield what a package needs here with some extras, and with which extras it needs that."""
    for line in of.requires or ():
        wanted = Requirement(line)
        if wanted.marker is None or any(wanted.marker.evaluate({"extra": each}) for each in ("", *extras)):
            try:
                yield distribution(wanted.name), frozenset(wanted.extras)
            except PackageNotFoundError as exc:
                raise SystemExit(f"{wanted.name} is not installed: run scripts/setup, and try again") from exc


def component(of: Distribution, kind: ComponentType = ComponentType.LIBRARY) -> Component:
    """Return a package as a line of the bill."""
    name = of.name.lower().replace("_", "-")
    url = PackageURL("pypi", name=name, version=of.version)
    return Component(name=of.name, version=of.version, type=kind, purl=url, bom_ref=str(url))


def bill(wheel: Path) -> Bom:
    """Return the bill of a wheel."""
    ours = distribution(NAME)
    made = Bom()
    made.metadata.component = root = component(ours, ComponentType.APPLICATION)
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    root.hashes.add(HashType(alg=HashAlgorithm.SHA_256, content=digest))
    lines = {root.bom_ref: Dependency(root.bom_ref)}
    todo = [(root, ours, frozenset(ours.metadata.get_all("Provides-Extra") or ()))]
    seen = set[tuple[str, frozenset[str]]]()
    while todo:
        line, of, extras = todo.pop()
        for other, others in needed(of, extras):
            found = component(other)
            made.components.add(found)
            lines.setdefault(found.bom_ref, Dependency(found.bom_ref))
            lines[line.bom_ref].dependencies.add(Dependency(found.bom_ref))
            if (other.name, others) not in seen:
                seen.add((other.name, others))
                todo.append((found, other, others))
    made.dependencies.update(lines.values())
    return made


def main(folder: Path) -> None:
    """Build, and write the bill."""
    subprocess.run([sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", str(folder)], check=True)
    (wheel,) = folder.glob(f"{NAME.replace('-', '_')}-{distribution(NAME).version}-*.whl")
    target = wheel.with_suffix(".cdx.json")
    target.write_text(JsonV1Dot6(bill(wheel)).output_as_string(indent=2) + "\n")
    print(f"wrote {target}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if sys.argv[1:] else "dist"))
