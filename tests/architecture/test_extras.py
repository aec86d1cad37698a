"""The extras of the package are the ones that `penstock doctor` looks for."""

import tomllib

from penstock.operate.doctor import EXTRAS
from tests.architecture.source import PROJECT


def test_doctor_has_a_row_for_every_extra_and_no_other() -> None:
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text("utf-8"))["project"]
    assert sorted(extra.name for extra in EXTRAS) == sorted(project["optional-dependencies"])


def test_every_row_says_what_the_extra_enables() -> None:
    assert [extra.name for extra in EXTRAS if not extra.enables or not extra.module] == []
