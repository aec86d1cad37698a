"""One look at a page: who looks, what was asked for in the address, and whether they may act."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from starlette.datastructures import ImmutableMultiDict

from penstock.clock import from_ms
from penstock.errors import InvalidInput

from .asking import Asking
from .history import OverviewHistory
from .lake import LakeView

BASE = "/console"
MOST_CHARACTERS = 1024  # of what a visitor may type into one field


@dataclass(frozen=True, slots=True)
class PageView:
    """What a page shows: a template and what is in it; `status` of the answer."""

    template: str
    values: Mapping[str, Any] = field(default_factory=dict)
    status: int = 200


@dataclass(frozen=True, slots=True)
class PageVisit:
    """What a view gets. `ask` asks operations; `can_act`: whether buttons are shown.

    `is_live`: the page is open already and brings itself up to date.
    """

    ask: Asking
    query: ImmutableMultiDict[str, str]
    history: OverviewHistory
    can_act: bool
    lake: LakeView | None = None
    is_live: bool = False

    @property
    def now(self) -> datetime:
        """The moment of the visit."""
        return from_ms(self.ask.api.clock.now_ms())

    def text(self, name: str) -> str | None:
        """Return a value of the address; None if it is not there or empty."""
        value = self.query.get(name)
        return str(value)[:MOST_CHARACTERS] if value else None

    def needed(self, name: str) -> str:
        """Return a value that has to be there. Raises InvalidInput."""
        value = self.text(name)
        if value is None:
            raise InvalidInput(f"the field {name} is empty")
        return value

    def place(self, name: str = "after") -> str | None:
        """Return where a page of a listing begins, which may be long."""
        value = self.query.get(name)
        return str(value) if value else None


def address(page: str, **query: Any) -> str:
    """Return the address of a page, with what of the query is not empty."""
    there = [(name, value) for name, value in query.items() if value not in (None, "") and value is not False]
    said = urlencode(there)  # 0 is something: a partition, an offset
    path = f"{BASE}/{page}" if page else f"{BASE}/"
    return f"{path}?{said}" if said else path
