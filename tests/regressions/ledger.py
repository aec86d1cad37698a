"""The ledger: which session wrote in which epoch, kept by the database itself, so that no writer can hide.

Each settling of a cursor and each move out of a slot is noted by a trigger, under the lock of the row that
fences it; so the notes of one row are in the order of the commits. A session is known by the name that
`named` puts into its address.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tests.crash.store import Store

_TRIGGERS = """
CREATE TABLE ledger (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind text NOT NULL, place integer NOT NULL, epoch bigint NOT NULL, writer text NOT NULL);
CREATE FUNCTION note_settling() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO ledger (kind, place, epoch, writer)
    VALUES ('cursor', NEW.partition, NEW.epoch, current_setting('shop.who', true));
    RETURN NULL; END $$;
CREATE FUNCTION note_move() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO ledger (kind, place, epoch, writer)
    SELECT 'slot', slot, epoch, current_setting('shop.who', true) FROM penstock_slot WHERE slot = OLD.slot;
    RETURN NULL; END $$;
CREATE TRIGGER note_settling AFTER UPDATE ON penstock_cursor
    FOR EACH ROW WHEN (NEW.version <> OLD.version) EXECUTE FUNCTION note_settling();
CREATE TRIGGER note_move AFTER DELETE ON penstock_staged FOR EACH ROW EXECUTE FUNCTION note_move();
"""


class Entry(NamedTuple):
    """One commit."""

    kind: str
    place: int
    epoch: int
    writer: str


def open_ledger(store: Store) -> None:
    """Begin to note; every session that settles or moves from now on must be named."""
    store.run(_TRIGGERS)


def named(url: str, who: str) -> str:
    """Return an address whose sessions stand in the ledger under a name."""
    return f"{url}{'&' if '?' in url else '?'}options=-cshop.who%3D{who}"


def entries(store: Store) -> list[Entry]:
    """Return all that is noted, in order."""
    rows = store.rows("SELECT kind, place, epoch, writer FROM ledger ORDER BY number")
    return [Entry(*row) for row in rows]


def two_owners(noted: list[Entry]) -> list[str]:
    """Return every commit by which two generations, or two writers of one, both wrote at one place."""
    return sorted(_two_owners(noted))


def _two_owners(noted: list[Entry]) -> Iterator[str]:
    last: dict[tuple[str, int], Entry] = {}
    for entry in noted:
        before = last.setdefault((entry.kind, entry.place), entry)
        if entry.epoch < before.epoch:
            yield f"{entry} after {before}"
        elif entry.epoch == before.epoch and entry.writer != before.writer:
            yield f"{entry} in the epoch of {before}"
        else:
            last[entry.kind, entry.place] = entry
