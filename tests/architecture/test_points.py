"""Every point has a name of its own, says which room it is in and what has happened there."""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock import points
from tests.architecture.source import ROOT, assert_none, modules, nodes, plant, room_of
from tools.tree import import_everything

_NAME = re.compile(r"[a-z_]+(\.[a-z_]+)+")


def declarations(root: Path) -> Iterator[tuple[str, str, str]]:
    """Yield file, name and meaning of each point as the source spells them; "" if it does not."""
    for path in modules(root):
        for node in nodes(path):
            if not isinstance(node, ast.Call) or getattr(node.func, "attr", "") != "declare":
                continue
            if ast.unparse(node.func) == "points.declare":
                name, meaning = (getattr(each, "value", "") for each in node.args)
                yield path.relative_to(root).as_posix(), name, meaning


def breaches(root: Path) -> Iterator[str]:
    """Yield a sentence for each point that is not dotted, of its room, explained and the only one."""
    found = list(declarations(root))
    for name, count in Counter(name for _, name, _ in found).items():
        if count > 1:
            yield f"point {name} is declared {count} times"
    for file, name, meaning in found:
        if not _NAME.fullmatch(name):
            yield f"{file}: the name of a point is dotted words written out, not {name!r}"
        elif name.partition(".")[0] not in (room_of(root / file, root), Path(file).stem.partition("_")[0]):
            yield f"{file}: point {name} begins with neither its room's nor its file's name"
        if not meaning.endswith("."):
            yield f"{file}: point {name} says in a sentence what has been done when it is reached"


def test_every_point_keeps_the_rules() -> None:
    assert_none(breaches(ROOT))


def test_every_point_in_the_source_is_declared_at_import() -> None:
    import_everything()
    assert {name for _, name, _ in declarations(ROOT)} <= set(points.declared())  # tests declare more


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("points.declare('log.a', 'M.')\npoints.declare('log.a', 'M.')", "declared 2 times"),
        ("points.declare('a', 'M.')", "dotted words"),
        ("points.declare(name, 'M.')", "dotted words"),
        ("points.declare('outbox.a', 'M.')", "neither its room"),
        ("points.declare('log.a', '')", "in a sentence"),
    ],
)
def test_a_planted_breach_is_found(text: str, words: str, tmp_path: Path) -> None:
    plant(tmp_path, "log/x.py", text)
    (found,) = breaches(tmp_path)
    assert words in found


def test_a_lawful_point_is_not_reported(tmp_path: Path) -> None:
    plant(tmp_path, "log/x.py", "points.declare('log.before_append', 'Nothing is written yet.')")
    plant(tmp_path, "log/files.py", "points.declare('files.after_sync', 'The file is on disk.')")
    assert list(breaches(tmp_path)) == []
