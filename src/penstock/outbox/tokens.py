"""Tokens: the same token again, within the window, is the same event.

A row of `token` is written in the caller's own transaction, so a rollback leaves the token free. Of two
transactions that use one token the second waits for the first: `ON CONFLICT DO NOTHING` says only that the
token was taken, so a second statement asks for which event. Rows are taken in the order of their hashes: two
callers with the same tokens in different orders would wait for each other. What is older than the window
counts as not there, whether retention has removed it or not.
"""

from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any

from penstock.errors import CommitOutcomeUnknown
from penstock.log.sql.database import Database, Transaction
from penstock.model.token import Token
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


def take_steps(events: Iterable[StagedEvent], window_ms: int) -> Steps[dict[bytes, str]]:
    """Take the tokens of events, each for the first event that has it.

    Return the id of the event that each token stands for: one of these events, or one published before.
    """
    firsts: dict[bytes, StagedEvent] = {}
    for event in events:
        if event.token is not None:
            firsts.setdefault(event.token.hash, event)
    meant: dict[bytes, str] = {}
    for _ in range(_ROUNDS):
        wanted = sorted(firsts.keys() - meant.keys())
        rows = [(each, firsts[each].id, firsts[each].timestamp_ms) for each in wanted]
        taken = yield Step("token_take", rows, counts=True)
        if taken == len(rows):
            return meant | {each: firsts[each].id for each in wanted}
        old = []
        for hash, id, created_ms in (yield Step("token_find", [(each,) for each in wanted], reads=True)):
            event = firsts[bytes(hash)]
            if created_ms > event.timestamp_ms - window_ms:
                meant[bytes(hash)] = _text(id)
            else:
                old.append((bytes(hash), event.timestamp_ms - window_ms))
        if old:
            yield Step("token_drop", sorted(old))
        if len(meant) == len(firsts):
            return meant
    raise AssertionError("a token was neither free nor taken, again and again")


def find_steps(token: Token, now_ms: int, window_ms: int) -> Steps[str | None]:
    """Look up the id of the event that a token stands for; None when there is none."""
    rows = yield Step("token_find", [(token.hash,)], reads=True)
    return next((_text(id) for _, id, created_ms in rows if created_ms > now_ms - window_ms), None)


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
    taken = yield Step("token_take", [(token.hash, "", now_ms)], counts=True)
    return None if taken else (yield from find_steps(token, now_ms, window_ms))


def trim_tokens(tx: Transaction, before_ms: int, limit: int) -> int:
    """Remove tokens taken before a moment, the oldest first and at most that many; return how many.

    For retention: `before_ms` is no later than now minus `tokens.window`.
    """
    return tx.change("outbox", "tokens_trim", before_ms=before_ms, limit=limit)


def _text(id: str | bytes) -> str:
    """Return an id; a caller may have told the driver to give text as bytes."""
    return id if isinstance(id, str) else id.decode()
