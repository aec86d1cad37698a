"""Every import inside a function stands in the table, and the table has no stale row."""

from pathlib import Path

import pytest

from tests.architecture.lazy_imports import COUNTED, breaches
from tests.architecture.source import ROOT, assert_none, plant

LAZY = "def f():\n    import json\n"


def test_imports_inside_functions_are_those_of_the_table() -> None:
    assert_none(breaches(ROOT, COUNTED))


@pytest.mark.parametrize(
    "text",
    [
        LAZY,
        "async def f():\n    from os import (\n        path, sep)\n",
        "class C:\n    def f(self):\n        import json\n",
        "def f():\n    return import_module('penstock.x')\n",
        "f = lambda: __import__('json')\n",
    ],
)
def test_a_planted_lazy_import_is_counted_once(text: str, tmp_path: Path) -> None:
    plant(tmp_path, "log/x.py", text)
    assert list(breaches(tmp_path, {})) == ["log/x.py has 1 imports inside functions, the table says 0"]
    assert list(breaches(tmp_path, {"log/x.py": (1, "cost")})) == []


def test_a_lazy_import_in_the_facade_is_counted(tmp_path: Path) -> None:
    plant(tmp_path, "__init__.py", LAZY)
    assert list(breaches(tmp_path, {})) == ["__init__.py has 1 imports inside functions, the table says 0"]


def test_an_import_at_the_top_is_not_counted(tmp_path: Path) -> None:
    plant(tmp_path, "log/x.py", "import json\nif True:\n    import os\n")
    assert list(breaches(tmp_path, {})) == []


def test_a_stale_row_is_found(tmp_path: Path) -> None:
    plant(tmp_path, "log/x.py", "import json\n")
    assert len(list(breaches(tmp_path, {"log/x.py": (1, "cost")}))) == 1
    assert len(list(breaches(tmp_path, {"log/gone.py": (1, "cost")}))) == 1


def test_a_row_without_a_reason_is_found(tmp_path: Path) -> None:
    plant(tmp_path, "log/x.py", LAZY)
    assert list(breaches(tmp_path, {"log/x.py": (1, "")})) == ["log/x.py has no reason in the table"]
