"""The reference of the Python API, from the docstrings and signatures of the public names.

Signatures are taken from the source, as they are written there: what `inspect` prints of a type differs
between versions of Python, and a page that is compared must not.
"""

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator
from importlib import import_module
from itertools import pairwise
from types import UnionType
from typing import Any, get_overloads

from penstock.errors import Error, base
from penstock.settings import Settings
from penstock.worker.handler_options import HandlerOptions

# Where the public names are; a module without `__all__` gives the functions and classes it defines.
MODULES = (
    "penstock",
    "penstock.testing",
    "penstock.gateway",
    "penstock.logs",
    "penstock.sqlalchemy",
    "penstock.django",
    "penstock.alembic",
)
_TITLES = {"penstock": "The package"}
_WIDTH = 100
_FOR_ENGINES = {"MemoryDialect"}  # handed over as it is; its methods are for Penstock itself
_MARKS = {"contextmanager", "asynccontextmanager", "classmethod", "staticmethod"}  # decorators that a caller sees
Function = ast.FunctionDef | ast.AsyncFunctionDef


def api_page() -> Iterator[str]:
    """Yield a section per module, and in it each public name with its signature and docstring."""
    yield "# Python API"
    yield (
        "What programs import, with signatures and docstrings from the code. [Errors](errors.md) have a page "
        "of their own. Other modules may be used as a how-to page shows it; anything else may change without "
        "notice."
    )
    for module in MODULES:
        yield f"## {_TITLES.get(module, module)}"
        yield _prose(import_module(module).__doc__) if module != "penstock" else _list(module)
        for name in public_names(module):
            yield from _thing(f"{module}.{name}", getattr(import_module(module), name))


def public_names(module: str) -> list[str]:
    """Return the public names of a module."""
    found = import_module(module)
    listed: list[str] | None = getattr(found, "__all__", None)
    if listed is not None:
        return sorted(listed, key=str.lower)
    own = vars(found).items()
    return sorted(
        name
        for name, thing in own
        if name[0] != "_" and getattr(thing, "__module__", "") == module and not _is_settings(thing)
    )


def _is_settings(thing: Any) -> bool:
    """Return whether something is a room's settings, which have a page of their own."""
    return isinstance(thing, type) and issubclass(thing, Settings)


def _list(module: str) -> str:
    names = [f"[`{name}`](#{f'{module}.{name}'.replace('.', '').lower()})" for name in public_names(module)]
    return f"`from penstock import …`: {', '.join(names)}."


def _thing(path: str, thing: Any) -> Iterator[str]:
    yield f"### `{path}`"
    if isinstance(thing, UnionType):
        yield _prose(_said_of(path))
        return
    node = _node(thing)
    if isinstance(node, ast.ClassDef):
        yield _code(_constructor(node, thing))
        yield _prose(thing.__doc__)
        init = vars(thing).get("__init__")
        if inspect.isfunction(init) and init.__doc__:
            yield _prose(init.__doc__)
        if thing.__name__ not in _FOR_ENGINES:
            yield from _members(thing)
    else:
        assert isinstance(node, Function), f"{path} is neither a class nor a function"
        yield _code(_signature(node))
        yield _prose(thing.__doc__)


def _said_of(path: str) -> str:
    """Return the string that follows a type alias where it is defined: an alias has no docstring itself."""
    module, _, name = path.rpartition(".")
    (home,) = [
        each.module
        for each in ast.parse(inspect.getsource(import_module(module))).body
        if isinstance(each, ast.ImportFrom) and each.module and name in {alias.name for alias in each.names}
    ]
    body = ast.parse(inspect.getsource(import_module(home))).body
    (said,) = [
        after.value.value
        for alias, after in pairwise(body)
        if isinstance(alias, ast.AnnAssign)
        and ast.unparse(alias.target) == name
        and isinstance(after, ast.Expr)
        and isinstance(after.value, ast.Constant)
    ]
    return str(said)


def _members(cls: type) -> Iterator[str]:
    """Yield the public methods and properties that a class has beyond those of a public parent."""
    hidden = {name for parent in _public_parents(cls) for name in dir(parent)}
    entries, rows = dict[str, list[str]](), dict[str, str]()
    for each in reversed([one for one in cls.__mro__ if one.__module__.startswith("penstock")]):
        for name, found in vars(each).items():
            if name.startswith("_") or name in hidden:
                continue
            if isinstance(found, property):
                rows[name] = _line(found.__doc__)
            elif inspect.isfunction(inspect.unwrap(getattr(found, "__func__", found))):
                function = inspect.unwrap(getattr(found, "__func__", found))
                heading = f"#### `{cls.__name__}.{name}`"
                forms = get_overloads(function) or [function]
                code = _code("\n\n".join(_signature(_function(form)) for form in forms))
                entries[name] = [heading, code, _prose(found.__doc__)]
    if rows:
        cells = "\n".join(f"| `{name}` | {text} |" for name, text in sorted(rows.items()))
        yield f"| property | |\n|---|---|\n{cells}"
    for _, parts in sorted(entries.items()):
        yield from parts


def _public_parents(cls: type) -> list[type]:
    public = [getattr(import_module(module), name) for module in MODULES[:2] for name in public_names(module)]
    return [parent for parent in cls.__mro__[1:] if parent in public]


def _constructor(node: ast.ClassDef, cls: type) -> str:
    """Return how an instance is made: the parameters of `__init__`, or the fields in their order."""
    for each in cls.__mro__:
        init = vars(each).get("__init__")
        if inspect.isfunction(init) and not hasattr(cls, "__dataclass_fields__"):
            function = _function(init)
            function.returns = None
            return _signature(function, name=cls.__name__)
    parents = [ast.unparse(base) for base in node.bases]
    fields = [ast.unparse(each) for each in node.body if isinstance(each, ast.AnnAssign) and _is_field(each)]
    head = f"{cls.__name__}({', '.join(parents)})" if parents else cls.__name__
    return "\n".join([f"class {head}", *(f"    {_plain(each)}" for each in fields)])


def _is_field(node: ast.AnnAssign) -> bool:
    named = isinstance(node.target, ast.Name) and not node.target.id.startswith("_")
    return named and "ClassVar" not in ast.unparse(node.annotation)


def _signature(node: Function, name: str | None = None) -> str:
    """Return a function's head without `self`, on one line or with a line per parameter."""
    options = any(ast.unparse(each) == "takes_options" for each in node.decorator_list)
    given = _options() if options else node.args
    positional = [*given.posonlyargs, *given.args]
    defaults: list[ast.expr | None] = [None] * (len(positional) - len(given.defaults)) + list(given.defaults)
    words = [_parameter(*each) for each in zip(positional, defaults, strict=True)]
    words = words[1:] if positional and positional[0].arg in ("self", "cls") else words
    if given.vararg:
        words.append(f"*{_parameter(given.vararg, None)}")
    elif given.kwonlyargs:
        words.append("*")
    words += [_parameter(*each) for each in zip(given.kwonlyargs, given.kw_defaults, strict=True)]
    if given.kwarg:
        words.append(f"**{_parameter(given.kwarg, None)}")
    kind = "async def " if isinstance(node, ast.AsyncFunctionDef) else "def " if name is None else ""
    tail = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    marks = "".join(f"@{mark}\n" for each in node.decorator_list if (mark := ast.unparse(each)) in _MARKS)
    line = f"{kind}{name or node.name}({', '.join(words)}){tail}"
    if len(line) <= _WIDTH:
        return f"{marks}{line}"
    inner = "".join(f"    {word},\n" for word in words)
    return f"{marks}{kind}{name or node.name}(\n{inner}){tail}"


def _options() -> ast.arguments:
    """Return the parameters of `Outbox.handler`, which are the fields of its options."""
    node = _node(HandlerOptions)
    assert isinstance(node, ast.ClassDef)
    fields = [each for each in node.body if isinstance(each, ast.AnnAssign)]
    parts = [f"{ast.unparse(each)}" for each in fields]
    marked = ["*" if part.startswith("_:") else part for part in parts]
    made = ast.parse(f"def options({', '.join(marked)}): ...").body[0]
    assert isinstance(made, ast.FunctionDef)
    return made.args


def _parameter(arg: ast.arg, default: ast.expr | None) -> str:
    kind = f": {ast.unparse(arg.annotation)}" if arg.annotation else ""
    equals = "" if default is None else f" = {ast.unparse(default)}" if kind else f"={ast.unparse(default)}"
    return f"{arg.arg}{kind}{equals}"


def _node(thing: Any) -> ast.stmt:
    if thing is Error:  # its module is the package, its source a file of it
        return next(
            each
            for each in ast.parse(inspect.getsource(base)).body
            if isinstance(each, ast.ClassDef) and each.name == Error.__name__
        )
    return ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(thing)))).body[0]


def _function(thing: Any) -> Function:
    node = _node(thing)
    assert isinstance(node, Function)
    return node


def _plain(field: str) -> str:
    """Return a field without our way to declare one: `_duration(timedelta(seconds=5))` is its default."""
    return re.sub(r"= (?:_duration|field)\((?:default=)?([^,]*\(.*?\)|[^,]*?)(?:, \w+=.*)?\)$", r"= \1", field)


def _code(text: str) -> str:
    return f"```text\n{text}\n```"


def _prose(docstring: str | None) -> str:
    """Return a docstring as Markdown; tables and lists stay as they are."""
    assert docstring, "a public name has no docstring"
    return inspect.cleandoc(docstring)


def _line(docstring: str | None) -> str:
    return " ".join((docstring or "").partition("\n\n")[0].split()).replace("|", "\\|")
