"""Which room's statements touch which tables: a knot in SQL is a knot, as one in imports is."""

import re
from collections.abc import Iterator
from pathlib import Path

from penstock.database.statements import split

OWNERS = {
    "database": {"meta"},
    "log": {
        "topic",
        "generation",
        "head",
        "log",
        "log_time",
        "hold",
        "producer",
        "topic_config",
        "kafka_producer",
        "kafka_sequence",
        "pending",
        "write_part",
        "write_epoch",
    },
    "outbox": {"staged", "scheduled", "token", "periodic"},
    "membership": {"member", "slot", "domain"},
    "delivery": {"group", "cursor", "lane", "lane_entry", "dead", "note", "fallback", "pending_offset"},
    "broker": {"kafka_group", "broker"},
    "access": {"access_rule"},
    "operate": {"audit", "value_schema"},
}
# A room may read the tables of others below it, but neither write nor lock them: a write keeps an invariant
# of the room that owns the table, and stays there.
READS = {"operate": {"delivery", "outbox"}}
# A statement that touches more than its room owns, the tables, and why it may.
EXCEPTIONS = {
    ("log", "move_staged"): ({"staged"}, "the move is one statement, so that it is one trip and one commit"),
    ("log", "move_scheduled"): ({"scheduled"}, "as move_staged"),
    ("log", "move_at_once"): ({"staged", "scheduled", "slot"}, "as move_staged, with pick and fence"),
    ("log", "insert_staged"): ({"staged"}, "the same move where a DELETE cannot feed an INSERT"),
    ("log", "insert_scheduled"): ({"scheduled"}, "as insert_staged"),
    ("log", "fence_slots"): ({"slot"}, "the fence opens the moving transaction, so it goes with the move"),
    ("log", "passed"): ({"cursor", "group"}, "a log in files gives no offset that a group has passed"),
    ("log", "fence_waiting"): ({"staged", "slot"}, "as fence_slots, where something is staged"),
    ("membership", "cursors_shared"): ({"cursor"}, "who owns a cursor is shared out by membership"),
    ("membership", "cursors_want"): ({"cursor"}, "as cursors_shared"),
    ("membership", "cursors_want_one"): ({"cursor"}, "as cursors_shared"),
    ("membership", "filters_lock"): ({"group"}, "members with another filter than the group's get no share"),
    ("membership", "filters_read"): ({"group"}, "as filters_lock"),
    ("membership", "filters_write"): ({"group"}, "as filters_lock"),
    ("membership", "member_neighbours"): ({"meta"}, "the schema's version, without a statement of its own"),
    ("membership", "take_turn"): ({"meta"}, "one row that is always there, to take turns by"),
}
_TABLE = re.compile(r"\bpenstock_([a-z_]+)\b(?!\s*\()")
_CHANGES = re.compile(r"\b(INSERT|UPDATE|DELETE|SHARE|ANALYZE)\b")
_LOG_TABLE = re.compile(r"\bpenstock_log\b")


def breaches(root: Path) -> Iterator[str]:
    """Yield a sentence for each foreign table that a statement touches, and each exception nobody needs."""
    used = set()
    for path in sorted(root.glob("*/sql/*.sql")):
        room = path.parent.parent.name
        for name, text in split(path.read_text("utf-8")):
            foreign = _tables(text) - OWNERS.get(room, set()) - _readable(room, text)
            allowed, _ = EXCEPTIONS.get((room, name), (set(), ""))
            if foreign & allowed:
                used.add((room, name))
            if foreign - allowed:
                tables = ", ".join(sorted(foreign - allowed))
                yield f"{room}/sql/{path.name}: {name} touches {tables}, which other rooms own"
    if root.joinpath("log", "sql", "common.sql").is_file():
        for room, name in sorted(EXCEPTIONS.keys() - used):
            yield f"{room}: {name} no longer needs its exception"


def names_of_the_log(root: Path) -> Iterator[str]:
    """Yield the files outside the log's room that name its table of records."""
    for path in sorted([*root.rglob("*.py"), *root.rglob("*.sql")]):
        inside = path.relative_to(root).parts[0] in ("log", "database")
        if not inside and _LOG_TABLE.search(path.read_text("utf-8")):
            yield f"{path.relative_to(root)} names penstock_log"


def _readable(room: str, text: str) -> set[str]:
    """Return the tables of other rooms that a statement of a room may name: none if it writes or locks."""
    if _CHANGES.search(_body(text)):
        return set()
    return {table for other in READS.get(room, ()) for table in OWNERS[other]}


def _tables(text: str) -> set[str]:
    return {found.removesuffix("_seq") for found in _TABLE.findall(_body(text))}


def _body(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("--"))
