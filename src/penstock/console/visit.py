"""One visit to a page: the visitor, the query of the URL, and whether the visitor may act."""

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
MOST_CHARACTERS = 1024  # that a visitor may type into one field


@dataclass(frozen=True, slots=True)
class PageView:
    """The answer of a view: a template, its values, and the HTTP status."""

    template: str
    values: Mapping[str, Any] = field(default_factory=dict)
    status: int = 200


@dataclass(frozen=True, slots=True)
class PageVisit:
    """The input of a view. `ask` calls operations; `can_act`: whether to show buttons.

    `is_live`: this is the refresh of an open page.
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
        """Return a value of the query; None if it is missing or empty."""
        value = self.query.get(name)
        return str(value)[:MOST_CHARACTERS] if value else None

    def needed(self, name: str) -> str:
        """Return a required value of the query. Raises InvalidInput."""
        value = self.text(name)
        if value is None:
            raise InvalidInput(f"the field {name} is empty")
        return value

    def place(self, name: str = "after") -> str | None:
        """Return the place where a page of a listing begins; it is not cut, however long."""
        value = self.query.get(name)
        return str(value) if value else None


def address(page: str, **query: Any) -> str:
    """Return the URL of a page with the query values that are not empty."""
    kept = [(name, value) for name, value in query.items() if value not in (None, "") and value is not False]
    encoded = urlencode(kept)  # 0 is a value: a partition, an offset
    path = f"{BASE}/{page}" if page else f"{BASE}/"
    return f"{path}?{encoded}" if encoded else path
