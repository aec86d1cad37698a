"""The rooms of the house and the direction of imports between them, as a table and a rule."""

from collections.abc import Iterator
from pathlib import Path

from tests.architecture.source import imported_rooms, imports, modules, room_of

GROUND = {"errors", "clock", "settings", "metrics", "tracing", "points", "redaction", "signals", "sockets"}
ROWS = [  # highest first; neighbours in a row do not import each other
    {"alembic", "django", "sqlalchemy"},  # each for a framework: as cli, they join the rooms
    {"cli"},
    {"testing"},
    {"console", "pipeline"},
    {"gateway"},
    {"app", "operate"},
    {"broker", "worker"},
    {"outbox", "delivery", "membership", "access"},
    {"log"},
    {"database"},
    {"wire"},
    {"model"},
    {"backoff", "logs"},  # how loops wait, how records of the logger are written: for every room
    GROUND - {"errors"},
    {"errors"},  # the lowest stone: settings and points raise errors too
]
RANK = {room: rank for rank, row in enumerate(ROWS) for room in row}
ONLY = {"pipeline": {"log", "database", "wire", "model"} | GROUND}  # rooms that may import less than all below them


def breaches(root: Path) -> Iterator[str]:
    """Yield one sentence for each file that is in no room and per import that does not point downward."""
    for path in modules(root):
        room, file = room_of(path, root), path.relative_to(root)
        if room not in RANK:
            yield f"{file}: {room} is not a room of this house"
            continue
        for other, line in imported_rooms(path, root):
            if other != room and not lawful(room, other):
                yield f"{file}:{line}: {room} may not import {_named(other)}"
        for each in imports(path, root):
            if each.target == ("?",):
                yield f"{file}:{each.line}: import_module of a name that is not written down"


def lawful(room: str, other: str) -> bool:
    """Return whether one room may import another; what is no room is a name of the façade."""
    return RANK.get(other, -1) > RANK[room] and other in ONLY.get(room, RANK)


def _named(other: str) -> str:
    return other if other in RANK else f"the façade ({other})"
