"""Why a record that is not in the log is not there: scheduled, staged, in an open transaction, or nowhere."""

from dataclasses import dataclass

from penstock.clock import from_ms
from penstock.log.sql.contract import Row
from penstock.log.sql.database import Transaction
from penstock.log.store import Store

from . import finding
from . import sentences as say
from .answer import Code, QuestionKind
from .explaining import Reason
from .finding import Logged, Missing, UnloggedEvent
from .history import Act
from .members import Members, Service
from .wording import ago, ahead, counted, lasting


@dataclass(frozen=True, slots=True)
class Writer:
    """An open transaction that has written to the staging tables; what the database does not tell is None."""

    pid: int | None = None
    application: str = ""
    state: str = ""
    age_ms: int | None = None
    query_ms: int | None = None
    prepared: str | None = None

    @property
    def text(self) -> str:
        """Return it as a person would look for it."""
        if self.prepared is not None:
            who = f"prepared transaction {self.prepared!r}"
        else:
            who = "another process" if self.pid is None else f"process {self.pid}"
        told = [self.application] if self.application else []
        if self.age_ms is not None:
            told.append(f"open for {lasting(self.age_ms)}")
        if self.state:
            told.append(self.state)
        if self.query_ms is not None:
            told.append(f"last statement at {from_ms(self.query_ms):%H:%M:%S} UTC")
        return f"{who} ({', '.join(told)})" if told else who


def writers(store: Store) -> list[Writer]:
    """Return the open transactions that may have staged something, the oldest first.

    Asked before the snapshot: what commits in between is then found, and nothing falls between the two.
    """

    def look(tx: Transaction) -> list[Row]:
        return tx.rows("outbox", "open_writers")

    found = [Writer(*row) for row in store.database.look(look)]
    return found or ([Writer()] if store.database.dialect.is_held() else [])


def explain_staged(
    tx: Transaction, members: Members, event: UnloggedEvent, kind: QuestionKind, now_ms: int
) -> Reason:
    """Return why an event is not in the log yet."""
    who = say.named(event, kind)
    one = f"its next event, {event.id}," if kind is QuestionKind.KEY else "it"
    if event.due_ms is not None and event.due_ms > now_ms:
        text = f"{who} is scheduled: {one} becomes due {ahead(event.due_ms, now_ms)}"
        return Reason(Code.NOT_DUE, text, event.timestamp_ms, event.due_ms)
    served = members.of_slot(tx.rows("membership", "slot_owner", slot=event.slot)[0][0])
    since = event.timestamp_ms if event.due_ms is None else event.due_ms
    what = "was published" if event.due_ms is None else "became due"
    text = f"{who} is not in the log yet: {one} {what} {ago(since, now_ms)}"
    if served.service is Service.NONE:
        text += f", and no living member moves the events of slot {event.slot}"
        return Reason(Code.NOT_SEQUENCED, text, since, commands=(say.WORKER,))
    by = members.name(served.member) if served.member else "a member that is about to take it"
    return Reason(Code.NOT_SEQUENCED, f"{text}; slot {event.slot} is moved by {by}", since)


def explain_missing(subject: str, kind: QuestionKind, missing: Missing, open_writers: list[Writer]) -> Reason:
    """Return what may have become of a record, or of those of a key, when nothing was found."""
    none = f"no record of key {subject} is" if kind is QuestionKind.KEY else f"record {subject} is not"
    also = _cut(missing)
    if open_writers:
        oldest, count = open_writers[0].text, len(open_writers)
        text = f"{none} to be seen, but a transaction that may hold it is still open: {oldest}"
        if count > 1:
            text += f", the oldest of {count:,}"
        return Reason(Code.OPEN_TRANSACTION, text, also=also)
    if missing.gone:
        text = f"{none} in the log: retention has removed what was published at its time"
        return Reason(Code.GONE, text, also=also)
    if missing.cut:
        return Reason(Code.UNKNOWN, f"{none} where it was looked for", also=also)
    text = f"{none} there: never published, rolled back, or cancelled before it was due"
    return Reason(Code.UNKNOWN, text)


def explain_erased(record: Logged) -> Reason:
    """Return that a record was erased."""
    text = f"record {record.id} was erased: {record.place} is kept empty, and delivered to nobody"
    return Reason(Code.ERASED, text)


def explain_cancelled(id: str, act: Act, now_ms: int) -> Reason:
    """Return that a scheduled event was taken back."""
    return Reason(Code.CANCELLED, f"record {id} was scheduled, and {say.done(act, now_ms)}", act.at_ms)


def _cut(missing: Missing) -> tuple[str, ...]:
    if not missing.cut:
        return ()
    return (
        f"only {counted(finding.WALK, 'record')} of each partition were looked at; look at all with --scan",
    )
