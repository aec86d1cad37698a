"""What went through a driver, written down, so that it can be run again without Penstock.

The yardstick of "the same SQL on the bare driver": text and parameters are exactly those that Penstock
handed over, whatever the statements are today.
"""

from typing import Any, NamedTuple


class Call(NamedTuple):
    """One call of a driver: its text, its parameters, and how it was made."""

    sql: Any
    params: Any
    many: bool = False
    binary: bool = False


Tape = list[Call]
