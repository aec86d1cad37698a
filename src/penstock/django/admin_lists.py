"""The rows of the admin's pages: dead letters, lanes and groups, for its templates."""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import msgspec
from django.urls import reverse

from penstock.errors import Undecodable
from penstock.operate.dead import DeadLetter, DeadRecord
from penstock.operate.lanes import WaitingLane
from penstock.operate.progress import Group

_LONGEST_VALUE = 20_000  # characters of a value that are shown
_LONGEST_REASON = 200


@dataclass(frozen=True, slots=True)
class Cell:
    """A text, a moment or a number, and optionally a link."""

    value: Any
    link: str = ""


@dataclass(frozen=True, slots=True)
class Listed:
    """One row. `tick`: the value of its checkbox, if there is one."""

    cells: tuple[Cell, ...]
    tick: str = ""


def listed_letters(letters: Iterable[DeadLetter]) -> list[Listed]:
    """Return dead letters as rows."""
    return [
        _row(
            each.died_at,
            each.group,
            Cell(_place(each), _letter_link(each)),
            each.type,
            each.key,
            each.failures,
            _short(each.reason),
            "yes" if each.holding else "no",
            tick=msgspec.json.encode((each.group, each.topic, each.id)).decode(),
        )
        for each in letters
    ]


def listed_lanes(lanes: Iterable[WaitingLane]) -> list[Listed]:
    """Return waiting lanes as rows."""
    return [
        _row(
            each.group,
            each.topic,
            each.partition,
            "(all)" if each.whole else each.key,
            each.state.value,
            each.until,
            each.failures,
            each.waiting,
            _short(each.reason),
        )
        for each in lanes
    ]


def listed_groups(groups: Iterable[Group]) -> list[Listed]:
    """Return groups as rows, with links to waiting lanes and dead letters, which may be too many to count."""
    return [
        _row(
            each.name,
            each.kind,
            ", ".join(each.topics),
            each.lag,
            each.oldest_unread_at,
            each.members,
            each.paused_at or "",
            Cell("waiting lanes", _list_link("lanelist", each.name)),
            Cell("dead letters", _list_link("deadlist", each.name)),
        )
        for each in groups
    ]


def _row(*values: Any, tick: str = "") -> Listed:
    return Listed(tuple(each if isinstance(each, Cell) else Cell(each) for each in values), tick)


def shown_record(found: DeadRecord) -> list[tuple[str, Any]]:
    """Return a dead letter with its record, field by field."""
    letter, record = found.letter, found.record
    value = repr(record.data)
    with suppress(Undecodable):
        if record.data is not None and not isinstance(record.value, bytes):
            value = msgspec.json.format(msgspec.json.encode(record.value), indent=2).decode()
    return [
        ("id", letter.id),
        ("group", letter.group),
        ("record", _place(letter)),
        ("type", letter.type),
        ("key", letter.key),
        ("published", record.timestamp),
        ("died", letter.died_at),
        ("failures", letter.failures),
        ("reason", letter.reason),
        ("holds its key", "yes" if letter.holding else "no"),
        ("group was reset", letter.reset_at or "no"),
        ("headers", "\n".join(f"{name}: {text}" for name, text in record.headers.items())),
        ("value", value if len(value) <= _LONGEST_VALUE else f"{value[:_LONGEST_VALUE]} …"),
        ("damage", found.damage or "none"),
    ]


def _place(letter: DeadLetter) -> str:
    return f"{letter.topic}/{letter.partition}/{letter.offset}"


def _letter_link(letter: DeadLetter) -> str:
    place = {name: getattr(letter, name) for name in ("group", "topic", "partition", "offset")}
    return f"{reverse('admin:penstock_deadlist_letter')}?{urlencode(place)}"


def _list_link(model: str, group: str) -> str:
    return f"{reverse(f'admin:penstock_{model}_changelist')}?{urlencode({'group': group})}"


def _short(reason: str) -> str:
    return reason if len(reason) <= _LONGEST_REASON else f"{reason[:_LONGEST_REASON]} …"
