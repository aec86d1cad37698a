"""Rules on names and words, one function each; they yield one sentence for each breach."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.architecture.source import modules, nodes, parsed

# Class names that may stand for more than one thing, with the reason.
SHARED = {
    "Meta": "Django reads the class of that name in each of its models",
    "Migration": "Django loads the class of that name from each of its migration files",
}

# Words we once used for a thing that has another name now. The value says which.
RETIRED = {
    "ear": "bell listener",
    "steward": "the loop or the role by its name",
    "pump": "loop",
    "gate": "limiter, or the check by its name",
    "shelf": "lane, or held records",
    "patience": "time-out, or back-off",
}
_PLURALS = {"shelf": "shelves"}
_SUFFIXES = {".py", ".sql", ".md", ".toml", ".html"}
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
OLD_NAME = "# the old name"


def classes(root: Path, shared: Mapping[str, str] = SHARED) -> Iterator[str]:
    """A class or type name means one thing in the whole tree; a leading underscore makes no difference.

    `Old = New  # the old name` keeps a name that users may import, and is not counted.
    """
    found: dict[str, list[str]] = defaultdict(list)
    for path in modules(root):
        lines = path.read_text("utf-8").splitlines()
        for name, line in _types(parsed(path)):
            if not lines[line - 1].endswith(OLD_NAME):
                found[name.lstrip("_")].append(f"{path.relative_to(root)}:{line}")
    for name, places in found.items():
        if len(places) > 1 and name not in shared:
            yield f"{places[-1]}: {name} is also the name of a type in {', '.join(places[:-1])}"
    yield from (f"{name} may be shared, and is not" for name in shared if len(found[name]) < 2)


def loggers(root: Path) -> Iterator[str]:
    """A logger is called `logger`: `log` is the log that records are in."""
    for path in modules(root):
        for node in nodes(path):
            if not isinstance(node, ast.Assign | ast.AnnAssign) or not isinstance(node.value, ast.Call):
                continue
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            name = ast.unparse(targets[0])
            makes_one = ast.unparse(node.value.func).rpartition(".")[2] == "getLogger"
            if makes_one and name not in ("logger", "self._logger"):
                yield f"{path.relative_to(root)}:{node.lineno}: a logger called {name}; say logger"


def retired_words(folder: Path) -> Iterator[str]:
    """No file uses a word that has been given up, alone or as a part of a name."""
    for path in sorted(folder.rglob("*")):
        if path.suffix not in _SUFFIXES:
            continue
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
            used = set(re.findall("[a-z]+", _HUMP.sub(" ", line).lower()))
            for word, instead in RETIRED.items():
                if used & {word, f"{word}s", _PLURALS.get(word, word)}:
                    yield f"{path.relative_to(folder)}:{number}: {word} was given up; say {instead}"


def _types(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Yield the classes of a module, and the types it gives a name to, each with its line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            yield node.name, node.lineno
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and _is_type(node.value):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            if isinstance(target, ast.Name) and _is_type_name(target.id):
                yield target.id, node.lineno


def _is_type(value: ast.expr | None) -> bool:
    union = isinstance(value, ast.BinOp) and isinstance(value.op, ast.BitOr)
    return union or isinstance(value, ast.Subscript | ast.Name | ast.Attribute)


def _is_type_name(name: str) -> bool:
    """Return whether a name is written as that of a class: `Head`, not `head` or `HEAD`."""
    plain = name.lstrip("_")
    return plain[:1].isupper() and not plain.isupper()
