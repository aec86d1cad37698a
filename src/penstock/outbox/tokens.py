"""Tokens: the same token again, in the same topic and within the window, is the same event.

A row of `token` is written in the caller's own transaction, so a rollback leaves the token free. Of two transactions
that use one token the second waits for the first: `ON CONFLICT DO NOTHING` tells only that the token was taken, so a
second statement reads the event. Rows are taken in the order of their hashes, or two callers would deadlock. A row
older than the window is ignored. A row holds a hash of the published content: the same token with other content is
refused.

A token has two rows: one of its topic, which decides, and one of the whole store for the topic that uses it first. By
the latter `published` finds an event without its topic, and waits for an open transaction that takes it.
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import Any, NamedTuple

from penstock.database.database import Database, Transaction
from penstock.errors import CommitOutcomeUnknown, TokenReused
from penstock.model.token import Token, digest
from penstock.settings import Settings, setting

from .contract import StagedEvent, Step, Steps, run

ExecuteStep = Callable[[Step], Any]
_ROUNDS = 5  # each after the first means that an old row disappeared meanwhile


class TokensSettings(Settings, room="tokens"):
    """How long the tokens of published events are remembered."""

    window: timedelta = setting(
        timedelta(days=7),
        "How long a token is remembered: used again in this time, it means the same event.",
        at_least=1,
    )

    @property
    def window_ms(self) -> int:
        """The window in milliseconds."""
        return self.window // timedelta(milliseconds=1)


class _StoredToken(NamedTuple):
    id: str
    created_ms: int
    content: bytes

    @classmethod
    def stored(cls, id: str | bytes, created_ms: int, content: bytes) -> "_StoredToken":
        return cls(_text(id), created_ms, bytes(content))


def take_steps(events: Iterable[StagedEvent], window_ms: int) -> Steps[dict[bytes, str]]:
    """Take the tokens of events, each for the first event that has it; return the event id of each token.

    Raises TokenReused for a token that was published with other content; then none of these events' is taken.
    """
    firsts: dict[bytes, StagedEvent] = {}
    for event in events:
        if event.token is not None:
            first = firsts.setdefault(event.token.hash, event)
            if _content(first) != _content(event):
                raise TokenReused(event.token.given, event.topic, first.id)
    resolved: dict[bytes, str] = {}
    known: dict[bytes, _StoredToken] = {}
    for _ in range(_ROUNDS):
        wanted = {hash: event for hash, event in firsts.items() if hash not in resolved}
        rows = _rows(wanted.values())
        taken = yield Step("token_take", rows, counts=True)
        if taken == len(rows):
            return resolved | {hash: event.id for hash, event in wanted.items()}
        found = yield Step("token_find", [row[:1] for row in rows], reads=True)
        known |= {bytes(hash): _StoredToken.stored(*columns) for hash, *columns in found}
        dropped = list[tuple[bytes, int]]()
        try:
            for hash, event in wanted.items():
                if (id := _meaning(event, known, window_ms, dropped)) is not None:
                    resolved[hash] = id
        except TokenReused:
            mine = {event.id: event.timestamp_ms for event in firsts.values()}
            taken = [(hash, mine[each.id]) for hash, each in known.items() if each.id in mine]
            if taken:
                yield Step("token_drop", sorted(taken))
            raise
        if dropped:
            yield Step("token_drop", sorted(set(dropped)))
            known = {hash: each for hash, each in known.items() if hash not in dict(dropped)}
        if len(resolved) == len(firsts):
            return resolved
    raise AssertionError("a token was neither free nor taken, again and again")


def _rows(events: Iterable[StagedEvent]) -> list[tuple[bytes, str, int, bytes]]:
    rows: dict[bytes, tuple[bytes, str, int, bytes]] = {}
    for event in events:
        assert event.token is not None
        for hash in (event.token.hash, event.token.store_hash):
            rows.setdefault(hash, (hash, event.id, event.timestamp_ms, _content(event)))
    return sorted(rows.values())


def _meaning(
    event: StagedEvent, known: Mapping[bytes, _StoredToken], window_ms: int, dropped: list[tuple[bytes, int]]
) -> str | None:
    """Return the event id of a token if it is known by now; add obsolete rows to `dropped`."""
    assert event.token is not None
    (hash, store_hash, given), since_ms = event.token, event.timestamp_ms - window_ms
    old = [(place, since_ms) for place in {hash, store_hash} if place in known and known[place].created_ms <= since_ms]
    if old:
        dropped += old
        return None
    ours, first = known.get(hash), known.get(store_hash)
    if ours is None or ours.id == event.id:
        return None if ours is None else ours.id
    if ours.content != _content(event):
        raise TokenReused(given, event.topic, ours.id)
    if first is not None and first.id == event.id:
        dropped.append((store_hash, event.timestamp_ms))
    return ours.id


def _content(event: StagedEvent) -> bytes:
    """Return a hash of an event's content, without its due time and context."""
    return digest(event.key, event.type.encode(), event.value)


def find_steps(token: Token, now_ms: int, window_ms: int) -> Steps[str | None]:
    """Return the event id of a token, or None."""
    found = yield Step("token_find", [(token.hash,)], reads=True)
    known = [_StoredToken.stored(*columns) for _, *columns in found]
    return next((each.id for each in known if each.id and each.created_ms > now_ms - window_ms), None)


def look_up(
    database: Database, on: Callable[[Any], ExecuteStep], token: Token, now_ms: int, window_ms: int
) -> str | None:
    """Look up a token on a connection of ours; `on` returns a function that runs steps on one.

    When it is missing, another transaction may be about to commit it. So we try to take the token, which waits for that
    transaction, and roll back. Raises CommitOutcomeUnknown after too long a wait.
    """
    found = database.look(lambda tx: run(find_steps(token, now_ms, window_ms), on(tx.conn)))
    if found is not None:
        return found
    try:
        with database.transaction() as tx:
            raise _TokenAnswer(run(wait_steps(token, now_ms, window_ms), on(tx.conn)))
    except _TokenAnswer as answer:
        id: str | None = answer.args[0]
        return id
    except Exception as exc:
        if database.dialect.is_conflict(exc):
            raise CommitOutcomeUnknown("a transaction that uses the token has not ended", [token.given]) from exc
        translated = database.dialect.translate(exc)
        if translated is None:
            raise
        raise translated from exc


class _TokenAnswer(Exception):
    """Carries an answer, its argument, out of a transaction that must be rolled back."""


def wait_steps(token: Token, now_ms: int, window_ms: int) -> Steps[str | None]:
    """Take a token, waiting for a transaction that does, and look it up; the caller must roll back."""
    taken = yield Step("token_take", [(token.hash, "", now_ms, b"")], counts=True)
    return None if taken else (yield from find_steps(token, now_ms, window_ms))


def trim_tokens(tx: Transaction, before_ms: int, limit: int) -> int:
    """Remove up to `limit` tokens taken before a moment, the oldest first; return their number."""
    return tx.change("outbox", "tokens_trim", before_ms=before_ms, limit=limit)


def _text(id: str | bytes) -> str:
    """Return an id; the caller's driver may be configured to return text as bytes."""
    return id if isinstance(id, str) else id.decode()
