"""One clock, one printer, names that say something, and a docstring on all that is public."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.architecture.habits import clocks, data_formats, docstrings, log_fields, names, printing, relative_imports
from tests.architecture.source import ROOT, assert_none, plant

Rule = Callable[[Path], Iterator[str]]
RULES: list[Rule] = [clocks, printing, log_fields, relative_imports, data_formats, names, docstrings]
BREACHES: list[tuple[Rule, str, str]] = [
    (clocks, "log/x.py", "import time"),
    (clocks, "log/x.py", "import os, time as t"),
    (clocks, "log/x.py", "from time import monotonic"),
    (clocks, "log/x.py", "from datetime import datetime\nx = datetime.now"),
    (clocks, "log/x.py", "from datetime import datetime as moment, UTC\nx = moment.now(UTC)"),
    (clocks, "log/x.py", "import datetime as dt\nx = dt.datetime.utcnow()"),
    (clocks, "log/x.py", "def f():\n    from datetime import date\n    return date.today()"),
    (printing, "log/x.py", "print('x')"),
    (printing, "log/x.py", "import sys\nsys.stdout.write('x')"),
    (printing, "operate/x.py", "from rich.table import Table"),
    (printing, "operate/x.py", "import click"),
    (log_fields, "worker/x.py", "logger.warning('group %s waits', name)"),
    (log_fields, "worker/x.py", "logger.warning('it failed', exc_info=True)"),
    (log_fields, "worker/x.py", "logger.warning('it failed', exc_info=error)"),
    (log_fields, "worker/x.py", "logger.exception('it failed')"),
    (relative_imports, "log/x.py", "from penstock.log.contract import Log"),
    (relative_imports, "log/sql/x.py", "def f():\n    from penstock.log.sql.heads import Fence"),
    (data_formats, "model/x.py", "import pickle"),
    (data_formats, "model/x.py", "def f():\n    from marshal import loads"),
    (names, "log/utils.py", ""),
    (names, "log/x.py", "class LogManager: ..."),
    (docstrings, "log/x.py", "x = 1"),
    (docstrings, "log/x.py", '"""M."""\nclass C: ...'),
    (docstrings, "log/x.py", '"""M."""\nasync def f(): ...'),
    (docstrings, "log/x.py", '"""M."""\nclass C:\n    """C."""\n    def f(self): ...'),
]
LAWFUL: list[tuple[Rule, str, str]] = [
    (clocks, "clock.py", "import time\nfrom datetime import datetime\nx = datetime.now"),
    (clocks, "log/x.py", "from datetime import datetime\nx = clock.now()"),
    (printing, "cli/x.py", "import click\nprint('x')"),
    (printing, "log/x.py", "blueprint('x')"),
    (log_fields, "worker/x.py", "logger.warning('group %s waits', name, extra={'group': name})"),
    (log_fields, "worker/x.py", "logger.info('%s: stopping', number)"),
    (relative_imports, "log/x.py", "from .contract import Log\nfrom penstock.model.record import Record"),
    (data_formats, "model/x.py", "import json"),
    (names, "log/segment.py", "class Segment: ..."),
    (docstrings, "log/x.py", '"""M."""\ndef _f(): ...\nclass _C:\n    def f(self): ...'),
    (docstrings, "log/x.py", '"""M."""\nclass C:\n    """C."""\n    @overload\n    def f(self): ...'),
    (
        docstrings,
        "log/x.py",
        '"""M."""\nclass B:\n    """B."""\n    def f(self): "F."\nclass C(B):\n    """C."""\n    def f(self): ...',
    ),
]


def _id(case: object) -> str:
    return getattr(case, "__name__", None) or str(case).replace("\n", "; ")[:40]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Give the root of a tree with a façade and nothing else."""
    plant(tmp_path, "__init__.py", '"""The façade."""')
    return tmp_path


@pytest.mark.parametrize("rule", RULES, ids=_id)
def test_the_rule_holds_in_the_house(rule: Rule) -> None:
    assert_none(rule(ROOT))


@pytest.mark.parametrize(("rule", "file", "text"), BREACHES, ids=_id)
def test_a_planted_breach_is_found(rule: Rule, file: str, text: str, tree: Path) -> None:
    plant(tree, file, text)
    (found,) = rule(tree)
    assert found.startswith(file)


@pytest.mark.parametrize(("rule", "file", "text"), LAWFUL, ids=_id)
def test_a_lawful_file_is_not_reported(rule: Rule, file: str, text: str, tree: Path) -> None:
    plant(tree, file, text)
    assert list(rule(tree)) == []
