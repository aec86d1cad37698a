import sqlite3
import sys

from bench.machine import look
from tests.unit.bench.fakes import a_machine


def test_the_machine_is_described_by_facts_that_are_all_there() -> None:
    machine = look()
    facts = dict(machine.facts())

    assert machine.sqlite == sqlite3.sqlite_version
    assert ".".join(map(str, sys.version_info[:3])) in machine.python
    assert machine.cores >= 1
    assert all(facts.values())


def test_a_tree_with_changes_is_said_to_have_them() -> None:
    assert dict(a_machine().facts())["commit"] == "abc, with changes not committed"
