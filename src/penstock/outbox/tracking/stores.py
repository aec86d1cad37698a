"""The outboxes that stage the writes of a flush when several track one model: once in each store.

Events go to the database of the row's own connection, whichever outbox stages them. So of the outboxes that
track the model, those whose store is that database stage them, once for each set of tables. If no address
matches (an alias, a pooler, an engine with a `creator`), those for that kind of database do.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from os.path import realpath
from typing import Protocol, TypeVar

from sqlalchemy import URL, make_url

from penstock.database.naming import Names

_KINDS = {"postgres": "postgresql"}  # other names of a kind
_PORTS = {"postgresql": 5432}  # where an address names none


@dataclass(frozen=True, slots=True)
class StoreAddress:
    """The address of the database of a store or a connection. Equal addresses are one database."""

    kind: str
    host: str
    port: int
    database: str


class StagesInStore(Protocol):
    """An object that stages events in one store."""

    address: StoreAddress
    names: Names


S = TypeVar("S", bound=StagesInStore)


def address_of(url: str | URL) -> StoreAddress:
    """Return the address in a URL of an outbox or an engine."""
    made = make_url(url)
    kind = _KINDS.get(made.get_backend_name(), made.get_backend_name())
    if kind == "sqlite":
        return StoreAddress(kind, "", 0, realpath(made.database or ""))
    host = made.host or made.query.get("host") or "localhost"
    return StoreAddress(kind, str(host), made.port or _PORTS.get(kind, 0), made.database or "")


def stagers_of(url: URL, several: Sequence[S]) -> Iterable[S]:
    """Return those of several that stage the writes on an engine's connection, given its URL."""
    if len(several) == 1:
        return several
    here = address_of(url)
    same = [each for each in several if each.address == here]
    alike = [each for each in several if each.address.kind == here.kind]
    chosen: dict[Names, S] = {}
    for each in same or alike or several:
        chosen.setdefault(each.names, each)
    return chosen.values()
