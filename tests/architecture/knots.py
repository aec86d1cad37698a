"""Knots in the imports: modules of which each reaches all others, so none can be read without the rest.

Imports inside functions and those for type checkers count, and so does `import_module` of a name that is written
down. The packages around an imported module do not: Python runs them, too, but nobody has named them.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.architecture.source import imports, modules

Graph = Mapping[str, set[str]]  # file → the files that it imports


def knots(root: Path) -> Iterator[str]:
    """Yield one sentence for each knot, with its files."""
    graph = _graph(root)
    reached = {file: _reached(graph, file) for file in graph}
    told = set[str]()
    for file in graph:
        knot = sorted(other for other in reached[file] if file in reached[other])
        if knot and file not in told:
            told.update(knot)
            yield f"{len(knot)} files import each other: {', '.join(knot)}"


def _graph(root: Path) -> Graph:
    files = {_parts(path, root): path for path in [root / "__init__.py", *modules(root)] if path.exists()}
    names = {parts: path.relative_to(root).as_posix() for parts, path in files.items()}
    graph: dict[str, set[str]] = {}
    for parts, path in files.items():
        targets = [each.target for each in imports(path, root)]
        # The last part of a target is a module, or else a name inside the module before it.
        found = {target if target in files else target[:-1] for target in targets}
        graph[names[parts]] = {names[each] for each in found & files.keys() - {parts}}
    return graph


def _parts(path: Path, root: Path) -> tuple[str, ...]:
    parts = ("penstock", *path.relative_to(root).with_suffix("").parts)
    return parts[:-1] if path.name == "__init__.py" else parts


def _reached(graph: Graph, start: str) -> set[str]:
    """Return the files that one imports, directly or through others: itself, too, if it is in a knot."""
    found, waiting = set[str](), [start]
    while waiting:
        for each in graph[waiting.pop()] - found:
            found.add(each)
            waiting.append(each)
    return found
