"""Tokens: the same token again, in the same topic and within the window, is the same event.

A row of `token` is written in the caller's own transaction, so a rollback leaves the token free. Of two
transactions that use one token the second waits for the first: `ON CONFLICT DO NOTHING` says only that the
token was taken, so a second statement asks for which event. Rows are taken in the order of their hashes: two
callers with the same tokens in different orders would wait for each other. What is older than the window
counts as not there, whether retention has removed it or not.

A row says by a hash what was published with the token: the same token with other content is refused. The
version before knows tokens of the whole store, and stores another hash of them. For one release both are
taken, so that programs of both versions beside each other publish an event once; what such a program has
stored, which is without content, counts for every topic.
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import Any, NamedTuple

from penstock.errors import CommitOutcomeUnknown, TokenReused
from penstock.log.sql.database import Database, Transaction
from penstock.model.token import Token, digest
from penstock.settings import Settings, setting

from .event import StagedEvent
from .steps import Step, Steps, run

ExecuteStep = Callable[[Step], Any]
_ROUNDS = 5  # each after the first means that an old row went away meanwhile


class TokensSettings(Settings, room="tokens"):
    """How long an event published with a token is known by it."""

    window: timedelta = setting(
        timedelta(days=7),
        "How long a token is remembered: used again within it, it means the same event.",
        at_least=1,
    )

    @property
    def window_ms(self) -> int:
        """The window in milliseconds."""
        return self.window // timedelta(milliseconds=1)


class _StoredToken(NamedTuple):
    """A token that is stored. `content` is None if the version before has stored it."""

    id: str
    created_ms: int
    content: bytes | None

    @classmethod
    def stored(cls, id: str | bytes, created_ms: int, content: bytes | None) -> "_StoredToken":
        """Return what a row says."""
        return cls(_text(id), created_ms, None if content is None else bytes(content))


def take_steps(events: Iterable[StagedEvent], window_ms: int) -> Steps[dict[bytes, str]]:
    """Take the tokens of events, each for the first event that has it.

    Return the id of the event that each token stands for: one of these events, or one published before.
    Raises TokenReused for one that was published with other content; then no token of these events is taken.
    """
    firsts: dict[bytes, StagedEvent] = {}
    for event in events:
        if event.token is not None:
            first = firsts.setdefault(event.token.hash, event)
            if _content(first) != _content(event):
                raise TokenReused(event.token.given, event.topic, first.id)
    meant: dict[bytes, str] = {}
    known: dict[bytes, _StoredToken] = {}
    for _ in range(_ROUNDS):
        wanted = {hash: event for hash, event in firsts.items() if hash not in meant}
        rows = _rows(wanted.values())
        taken = yield Step("token_take", rows, counts=True)
        if taken == len(rows):
            return meant | {hash: event.id for hash, event in wanted.items()}
        found = yield Step("token_find", [row[:1] for row in rows], reads=True)
        known |= {bytes(hash): _StoredToken.stored(*columns) for hash, *columns in found}
        dropped = list[tuple[bytes, int]]()
        try:
            for hash, event in wanted.items():
                id = _meaning(event, known, window_ms, dropped)
                if id is not None:
                    meant[hash] = id
        except TokenReused:
            mine = {event.id: event.timestamp_ms for event in firsts.values()}
            taken = [(hash, mine[each.id]) for hash, each in known.items() if each.id in mine]
            if taken:
                yield Step("token_drop", sorted(taken))
            raise
        if dropped:
            yield Step("token_drop", sorted(set(dropped)))
            known = {hash: each for hash, each in known.items() if hash not in dict(dropped)}
        if len(meant) == len(firsts):
            return meant
    raise AssertionError("a token was neither free nor taken, again and again")


def _rows(events: Iterable[StagedEvent]) -> list[tuple[bytes, str, int, bytes]]:
    """Return what is stored of the tokens of events, sorted, also as the version before would look for it."""
    rows: dict[bytes, tuple[bytes, str, int, bytes]] = {}
    for event in events:
        assert event.token is not None
        for hash in (event.token.hash, event.token.store_hash):
            rows.setdefault(hash, (hash, event.id, event.timestamp_ms, _content(event)))
    return sorted(rows.values())


def _meaning(
    event: StagedEvent, known: Mapping[bytes, _StoredToken], window_ms: int, dropped: list[tuple[bytes, int]]
) -> str | None:
    """Return the id of the event that a token stands for, if that is known by now; note what is to go.

    What the version before has stored counts for every topic.
    """
    assert event.token is not None
    (hash, store_hash, given), since_ms = event.token, event.timestamp_ms - window_ms
    ours, before = known.get(hash), known.get(store_hash)
    old = [
        (place, since_ms)
        for place, each in ((hash, ours), (store_hash, before))
        if each is not None and each.created_ms <= since_ms
    ]
    if old:
        dropped += old
        return None
    if ours is not None and ours.id != event.id:
        if ours.content not in (None, _content(event)):
            raise TokenReused(given, event.topic, ours.id)
        if before is not None and before.id == event.id:
            dropped.append((store_hash, event.timestamp_ms))
        return ours.id
    if before is not None and before.content is None:
        if ours is not None:
            dropped.append((hash, event.timestamp_ms))
        return before.id
    return None if ours is None else ours.id


def _content(event: StagedEvent) -> bytes:
    """Return a hash of what makes an event the same: not when it is due, nor what surrounds it."""
    return digest(event.key, event.type.encode(), event.value)


def find_steps(token: Token, now_ms: int, window_ms: int) -> Steps[str | None]:
    """Look up the id of the event that a token stands for; None when there is none."""
    hashes = sorted({token.hash, token.store_hash})
    found = yield Step("token_find", [(each,) for each in hashes], reads=True)
    since_ms = now_ms - window_ms
    known = {bytes(hash): _StoredToken.stored(*columns) for hash, *columns in found}
    ours, before = known.get(token.hash), known.get(token.store_hash)
    if ours is not None and ours.id and ours.created_ms > since_ms:
        return ours.id
    if before is not None and before.content is None and before.created_ms > since_ms:
        return before.id
    return None


def look_up(
    database: Database, on: Callable[[Any], ExecuteStep], token: Token, now_ms: int, window_ms: int
) -> str | None:
    """Look up a token on a connection of ours; `on` runs steps on one.

    When it is not there, another transaction may be about to commit it. So we try to take the token, which
    waits for that transaction, and roll back. Raises CommitOutcomeUnknown when that takes longer than a
    transaction of ours may wait.
    """
    found = database.look(lambda tx: run(find_steps(token, now_ms, window_ms), on(tx.conn)))
    if found is not None:
        return found
    try:
        with database.transaction() as tx:
            raise _TokenAnswer(run(wait_steps(token, now_ms, window_ms), on(tx.conn)))
    except _TokenAnswer as answer:
        return answer.id
    except Exception as exc:
        if database.dialect.is_conflict(exc):
            raise CommitOutcomeUnknown(
                "a transaction that uses the token has not ended", [token.given]
            ) from exc
        translated = database.dialect.translate(exc)
        if translated is None:
            raise
        raise translated from exc


class _TokenAnswer(Exception):
    """Carries an answer out of a transaction that must be rolled back."""

    def __init__(self, id: str | None) -> None:
        super().__init__(id)
        self.id = id


def wait_steps(token: Token, now_ms: int, window_ms: int) -> Steps[str | None]:
    """Look up as `find_steps` does, after waiting for a transaction that is taking the token.

    It tries to take the token itself: the caller must roll back.
    """
    rows = [(hash, "", now_ms, b"") for hash in sorted({token.hash, token.store_hash})]
    taken = yield Step("token_take", rows, counts=True)
    return None if taken == len(rows) else (yield from find_steps(token, now_ms, window_ms))


def trim_tokens(tx: Transaction, before_ms: int, limit: int) -> int:
    """Remove tokens taken before a moment, the oldest first and at most that many; return how many.

    For retention: `before_ms` is no later than now minus `tokens.window`.
    """
    return tx.change("outbox", "tokens_trim", before_ms=before_ms, limit=limit)


def _text(id: str | bytes) -> str:
    """Return an id; a caller may have told the driver to give text as bytes."""
    return id if isinstance(id, str) else id.decode()
