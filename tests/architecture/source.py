"""Reading a source tree: its modules, their rooms and what they import.

Every rule here takes the root of a tree, so the same code looks at Penstock and at a tree that a test has
planted with a breach.
"""

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import penstock

ROOT = Path(penstock.__file__).parent
PROJECT = Path(__file__).parents[2]
_PACKAGE = "penstock"


@dataclass(frozen=True, slots=True)
class Import:
    """One import: what it names, in parts, where it stands, and whether a function hides it."""

    target: tuple[str, ...]
    line: int
    lazy: bool


def modules(root: Path) -> list[Path]:
    """Return the modules of a tree, sorted; the façade is not one of the house's rooms."""
    return [path for path in sorted(root.rglob("*.py")) if path != root / "__init__.py"]


def room_of(path: Path, root: Path) -> str:
    """Return the room a file belongs to: its top folder, or its own name on the ground floor."""
    return path.relative_to(root).parts[0].removesuffix(".py")


def parsed(path: Path) -> ast.Module:
    """Return a file's syntax tree, the same for all rules: none may change it."""
    return _parsed(path.read_text("utf-8"), str(path))


def nodes(path: Path) -> tuple[ast.AST, ...]:
    """Return all nodes of a file's syntax tree; the walk takes longer than a rule does."""
    return _nodes(path.read_text("utf-8"), str(path))


@cache
def _parsed(text: str, name: str) -> ast.Module:
    return ast.parse(text, name)


@cache
def _nodes(text: str, name: str) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(_parsed(text, name)))


def plant(root: Path, file: str, text: str = "") -> Path:
    """Write one file of a planted tree and return it."""
    path = root / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    return path


def assert_none(found: Iterable[str]) -> None:
    """Fail with all sentences, a line each, if there are any."""
    sentences = list(found)
    assert not sentences, "\n".join(["", *sentences])


def imports(path: Path, root: Path) -> Iterator[Import]:
    """Yield every import of a file; TYPE_CHECKING ones and `import_module(...)` count like any other."""
    package = (_PACKAGE, *path.relative_to(root).parent.parts)
    for node, lazy in _walk(parsed(path), False):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(tuple(alias.name.split(".")), node.lineno, lazy)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) + 1 - node.level] if node.level else ()
            stem = (*base, *(node.module.split(".") if node.module else ()))
            for alias in node.names:
                yield Import((*stem, alias.name), node.lineno, lazy)
        elif isinstance(node, ast.Call) and _called(node) in ("import_module", "__import__"):
            yield Import(_spelled(node.args[0], package), node.lineno, lazy)


def imported_rooms(path: Path, root: Path) -> Iterator[tuple[str, int]]:
    """Yield each room of ours that a file imports, with the line; `__init__` is the façade."""
    for each in imports(path, root):
        if each.target[0] == _PACKAGE:
            yield each.target[1] if len(each.target) > 1 else "__init__", each.line


def _walk(node: ast.AST, lazy: bool) -> Iterator[tuple[ast.AST, bool]]:
    yield node, lazy
    inside = lazy or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
    for child in ast.iter_child_nodes(node):
        yield from _walk(child, inside)


def _called(call: ast.Call) -> str:
    return getattr(call.func, "id", "") or getattr(call.func, "attr", "")


def _spelled(name: ast.expr, package: tuple[str, ...]) -> tuple[str, ...]:
    """Return what a dynamic import names, as far as it is written down; ("?",) when nothing is."""
    parts = name.values if isinstance(name, ast.JoinedStr) else [name]
    text = ""
    for part in parts:
        if isinstance(part, ast.Constant):
            text += str(part.value)
        elif isinstance(part, ast.FormattedValue) and getattr(part.value, "id", "") == "__name__":
            text += ".".join(package)
        else:
            break
    if text.startswith("."):
        below = text.lstrip(".")
        return (*package[: len(package) + 1 - (len(text) - len(below))], *below.split("."))
    return tuple(text.split(".")) if text else ("?",)
