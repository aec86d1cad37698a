"""Rules on what a file may call and how it is named, one function each. Each breach is one sentence."""

import ast
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from pathlib import Path

from tests.architecture.source import modules, nodes, parsed, room_of

_CLOCK_READS = {"now", "utcnow", "today"}
_STREAMS = {"stdout", "stderr"}
_PRINTING = {"click", "rich"}
_RUNS_CODE = {"pickle", "marshal", "shelve", "dill", "cloudpickle"}
_NO_NOUN = {"utils.py", "util.py", "helpers.py", "helper.py", "common.py", "misc.py"}
_LINES = {"debug", "info", "warning", "error", "exception", "log"}
_ABOUT = ("group %s", "handler %s", "member %s", "schedule %s", "partition %d", "record %d")
_WHOLE_ERRORS = {"True", "exc", "error"}
_NO_NAME = ("Manager", "Helper", "Impl", "Utils")


def clocks(root: Path) -> Iterator[str]:
    """Only `clock.py` reads the time: no `time` module, no `datetime.now` anywhere else."""
    for path, node in _nodes(root, exempt={"clock"}):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if "time" in names or (isinstance(node, ast.ImportFrom) and node.module == "time"):
            yield _said(root, path, node, "imports time; ask a Clock")
        elif isinstance(node, ast.Attribute) and node.attr in _CLOCK_READS and _is_calendar(path, node.value):
            yield _said(root, path, node, f"reads {ast.unparse(node)}; ask a Clock")


def printing(root: Path) -> Iterator[str]:
    """Only `cli` prints: no `print`, no standard streams, no click or rich anywhere else."""
    for path, node in _nodes(root, exempt={"cli"}):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "print":
            yield _said(root, path, node, "prints; return a value, or log it")
        elif isinstance(node, ast.Attribute) and node.attr in _STREAMS and ast.unparse(node.value) == "sys":
            yield _said(root, path, node, f"uses {ast.unparse(node)}; return a value, or log it")
        elif isinstance(node, ast.Import | ast.ImportFrom) and _top_names(node) & _PRINTING:
            yield _said(root, path, node, f"imports {', '.join(_top_names(node))}; only cli prints")


def log_fields(root: Path) -> Iterator[str]:
    """A log line has what it is about as fields, too, and shows no error but as it may be shown."""
    for path, node in _nodes(root):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        if node.func.attr not in _LINES or ast.unparse(node.func.value) not in ("logger", "self._logger"):
            continue
        given = {each.arg: ast.unparse(each.value) for each in node.keywords}
        text = " ".join(ast.unparse(each) for each in node.args)
        if "extra" not in given and any(each in text for each in _ABOUT):
            yield _said(root, path, node, "names what it is about in the message alone; give extra=")
        if given.get("exc_info") in _WHOLE_ERRORS or node.func.attr == "exception":
            yield _said(root, path, node, "shows an error whole; use error(..., exc_info=traced(error))")


def relative_imports(root: Path) -> Iterator[str]:
    """Inside a room imports are relative, so that an absolute one always names another room."""
    for path, node in _nodes(root):
        named = isinstance(node, ast.ImportFrom) and not node.level and (node.module or "").split(".")
        own_room = named and named[:2] == ["penstock", room_of(path, root)]
        if own_room and len(path.relative_to(root).parts) > 1:
            yield _said(root, path, node, f"names its own room, {room_of(path, root)}; import relatively")


def data_formats(root: Path) -> Iterator[str]:
    """No format that can run code when it is read."""
    for path, node in _nodes(root):
        if isinstance(node, ast.Import | ast.ImportFrom) and _top_names(node) & _RUNS_CODE:
            yield _said(root, path, node, f"imports {', '.join(_top_names(node))}; data must not run code")


def names(root: Path) -> Iterator[str]:
    """Files are nouns of the domain, and a class says what a thing is."""
    for path in modules(root):
        if path.name in _NO_NOUN:
            yield f"{path.relative_to(root)}: name the file after what it holds"
    for path, node in _nodes(root):
        if isinstance(node, ast.ClassDef) and node.name.endswith(_NO_NAME):
            yield _said(root, path, node, f"{node.name} does not say what it is")


def docstrings(root: Path) -> Iterator[str]:
    """Every module, public class, function and method says what it is, unless the method's base class says it."""
    classes = {node.name: node for _, node in _nodes(root) if isinstance(node, ast.ClassDef)}
    for path in [root / "__init__.py", *modules(root)]:
        tree = parsed(path)
        if not ast.get_docstring(tree):
            yield f"{path.relative_to(root)}: the module has no docstring"
        for node, name, bases in _public(tree, "", ()):
            if not ast.get_docstring(node) and not _is_told(node.name, bases, classes):
                yield _said(root, path, node, f"{name} has no docstring")


def _is_told(method: str, bases: tuple[str, ...], classes: dict[str, ast.ClassDef]) -> bool:
    """Return whether one of some classes, or of those they are made from, has the method with a docstring."""
    for base in (classes[each] for each in bases if each in classes):
        own = [each for each in base.body if isinstance(each, ast.FunctionDef) and each.name == method]
        if any(map(ast.get_docstring, own)) or _is_told(method, _bases(base), classes):
            return True
    return False


def _bases(node: ast.ClassDef) -> tuple[str, ...]:
    return tuple(ast.unparse(each).partition("[")[0] for each in node.bases)  # also those of a generic class


def _public(
    parent: ast.Module | ast.ClassDef, within: str, bases: tuple[str, ...]
) -> Iterator[tuple[ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef, str, tuple[str, ...]]]:
    for node in parent.body:
        if not isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        told_elsewhere = {ast.unparse(each) for each in node.decorator_list} & {"overload", "override"}
        if node.name.startswith("_") or told_elsewhere:
            continue
        yield node, within + node.name, bases
        if isinstance(node, ast.ClassDef):
            yield from _public(node, f"{node.name}.", _bases(node))


def _nodes(root: Path, exempt: AbstractSet[str] = frozenset()) -> Iterator[tuple[Path, ast.AST]]:
    for path in modules(root):
        if room_of(path, root) not in exempt:
            yield from ((path, node) for node in nodes(path))


def _said(root: Path, path: Path, node: ast.AST, what: str) -> str:
    return f"{path.relative_to(root)}:{getattr(node, 'lineno', 0)}: {what}"


def _top_names(node: ast.Import | ast.ImportFrom) -> set[str]:
    if isinstance(node, ast.ImportFrom):
        return {(node.module or "").partition(".")[0]} if not node.level else set()
    return {alias.name.partition(".")[0] for alias in node.names}


def _is_calendar(path: Path, value: ast.expr) -> bool:
    """Return whether an expression is the class datetime or date, under whatever name it was imported."""
    first, _, rest = ast.unparse(value).partition(".")
    for node in nodes(path):
        if isinstance(node, ast.ImportFrom) and node.module == "datetime":
            if first in {alias.asname or alias.name for alias in node.names}:
                return True
        elif isinstance(node, ast.Import):
            known = {alias.asname or alias.name for alias in node.names if alias.name == "datetime"}
            if first in known and rest:
                return True
    return False
