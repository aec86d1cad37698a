"""The page of the Python API has every public name, with its parameters as the code has them."""

import inspect
from typing import get_overloads

import penstock
from tests.docs.pages import PROJECT
from tools.api import MODULES, public_names

PAGE = (PROJECT / "docs" / "reference" / "api.md").read_text("utf-8")


def test_every_public_name_has_its_heading() -> None:
    for module in MODULES:
        for name in public_names(module):
            assert f"\n### `{module}.{name}`\n" in PAGE


def test_every_public_method_of_an_outbox_is_there_with_all_its_parameters() -> None:
    for name, method in inspect.getmembers(penstock.Outbox, inspect.isfunction):
        if name.startswith("_"):
            continue
        section = PAGE.partition(f"#### `Outbox.{name}`\n")[2].partition("\n#### ")[0]
        assert section, name
        for form in get_overloads(method) or [method]:
            for parameter in list(inspect.signature(form).parameters)[1:]:
                assert parameter in section, f"{name} has {parameter}"


def test_every_handler_option_is_there() -> None:
    section = PAGE.partition("#### `Outbox.handler`\n")[2].partition("\n#### ")[0]
    for option in ("match", "group: str", "lanes: ", "transaction: bool = False", "rate: "):
        assert option in section
