"""Why a record is not in the log: scheduled, staged, in an open transaction, or unknown."""

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.clock import from_ms
from penstock.database.contract import Row
from penstock.database.database import Transaction
from penstock.log.store import Store

from . import finder
from . import sentences as say
from .answer import Code, QuestionKind, Reason, ago, ahead, counted, lasting
from .finder import Missing, UnloggedEvent
from .members import Members, Served, Service

LONG_MS = 10_000  # a transaction open for this long is reported
_LOCKED_MS = 1_000
_LOCKED = ("slot", "head", "topic", "log", "group", "cursor", "lane", "lane_entry", "dead", "member", "domain")
_WORST = (Service.NONE, Service.STOPPED, Service.COMING, Service.OWNED)


@dataclass(frozen=True, slots=True)
class Writer:
    """An open transaction that has written to the staging tables; None where the database tells nothing."""

    pid: int | None = None
    application: str = ""
    state: str = ""
    age_ms: int | None = None
    query_ms: int | None = None
    prepared: str | None = None

    @property
    def text(self) -> str:
        """The transaction as people would search for it."""
        if self.prepared is not None:
            who = f"prepared transaction {self.prepared!r}"
        else:
            who = "another process" if self.pid is None else f"process {self.pid}"
        details = [self.application] if self.application else []
        if self.age_ms is not None:
            details.append(f"open for {lasting(self.age_ms)}")
        if self.state:
            details.append(self.state)
        if self.query_ms is not None:
            details.append(f"last statement at {from_ms(self.query_ms):%H:%M:%S} UTC")
        return f"{who} ({', '.join(details)})" if details else who


@dataclass(frozen=True, slots=True)
class OpenTransactions:
    """The open transactions that may affect publishing or delivery, the oldest first.

    `writers` may have staged events that are not visible yet. `lockers` hold locks on tables that only our
    own transactions should lock, so workers wait for them.
    """

    writers: tuple[Writer, ...] = ()
    lockers: tuple[Writer, ...] = ()

    def long_writers(self) -> tuple[Writer, ...]:
        """Return those that have been open for long, or for an unknown time."""
        return tuple(each for each in self.writers if each.age_ms is None or each.age_ms >= LONG_MS)

    def long_lockers(self) -> tuple[Writer, ...]:
        """Return those that have been open for longer than a statement takes."""
        return tuple(each for each in self.lockers if each.age_ms is None or each.age_ms >= _LOCKED_MS)


def open_transactions(store: Store) -> OpenTransactions:
    """Return the open transactions that may affect publishing or delivery.

    Call it before taking the snapshot: then the snapshot sees what commits in between, and no event is missed.
    """
    tables = [store.database.names.table(name) for name in _LOCKED]

    def look(tx: Transaction) -> tuple[list[Row], list[Row]]:
        return tx.rows("operate", "open_writers"), tx.rows("operate", "open_lockers", tables=tables)

    writers, lockers = store.database.look(look)
    if not writers and store.database.dialect.is_held():
        return OpenTransactions((Writer(),), (Writer(),))
    return OpenTransactions(*(tuple(Writer(*row) for row in rows) for rows in (writers, lockers)))


def explain_staged(
    tx: Transaction, members: Members, event: UnloggedEvent, kind: QuestionKind, now_ms: int, opened: OpenTransactions
) -> Reason:
    """Return why an event is not in the log yet."""
    who = say.named(event, kind)
    one = f"its next event, {event.id}," if kind is QuestionKind.KEY else "it"
    if event.due_ms is not None and event.due_ms > now_ms:
        text = f"{who} is scheduled: {one} becomes due {ahead(event.due_ms, now_ms)}"
        return Reason(Code.NOT_DUE, text, event.timestamp_ms, event.due_ms)
    since = event.timestamp_ms if event.due_ms is None else event.due_ms
    what = "was published" if event.due_ms is None else "became due"
    text = f"{who} is not in the log yet: {one} {what} {ago(since, now_ms)}"
    served = members.of_slot(tx.rows("membership", "slot_owner", slot=event.slot)[0][0])
    return _unmoved(text, f"slot {event.slot}", served, since, opened)


def explain_ready(
    tx: Transaction, members: Members, topic: str | None, now_ms: int, opened: OpenTransactions
) -> Reason | None:
    """Return why ready events of a topic, or of all, are not in the log yet; None if there are none."""
    ready = tx.rows("operate", "ready_by_slot", topic=topic, now_ms=now_ms)
    if not ready:
        return None
    count, since = sum(int(row[1]) for row in ready), min(row[2] for row in ready)
    owners = {row[0]: row[1] for row in tx.rows("membership", "slots_shared")}
    served = {row[0]: members.of_slot(owners[row[0]]) for row in ready}
    slot, worst = min(served.items(), key=lambda each: _WORST.index(each[1].service))
    are = counted(count, "event is", "events are")
    text = f"{are} committed but not in the log yet, the oldest {ago(since, now_ms)}"
    return _unmoved(text, f"slot {slot}", worst, since, opened)


def _unmoved(text: str, where: str, served: Served, since_ms: int, opened: OpenTransactions) -> Reason:
    if served.service is Service.NONE:
        gone = f" ({', and '.join(served.lapsed[:2])})" if served.lapsed else ""
        text += f", and no living member sequences the events of {where}{gone}"
        return Reason(Code.NOT_SEQUENCED, text, since_ms, commands=(say.WORKER,))
    if served.service is Service.STOPPED:
        text += f"; {say.stopped(served.name, where)}"
        return Reason(Code.STOPPED, text, since_ms, commands=(f"kill -CONT {served.pid}",))
    lockers = opened.long_lockers()
    if lockers:
        text += f"; {blocked(lockers)}"
        return Reason(Code.OPEN_TRANSACTION, text, since_ms)
    trouble = served.status.troubles.get("sequencing")
    if trouble:
        return Reason(Code.TROUBLE, f"{text}; {say.troubled(served.name, 'move it', trouble)}", since_ms)
    by = served.name or "a member that is about to take it"
    return Reason(Code.NOT_SEQUENCED, f"{text}; {where} is sequenced by {by}", since_ms)


def blocked(lockers: Sequence[Writer]) -> str:
    """Say that an open transaction blocks workers."""
    return f"an open transaction holds locks that workers need: {_oldest(lockers)}; end it"


def unseen(writers: Sequence[Writer]) -> str:
    """Say that an open transaction may hold events."""
    return f"a transaction that may have published more is still open: {_oldest(writers)}"


def _oldest(open_transactions: Sequence[Writer]) -> str:
    count = len(open_transactions)
    return open_transactions[0].text + (f", the oldest of {count:,}" if count > 1 else "")


def explain_missing(subject: str, kind: QuestionKind, missing: Missing, open_writers: Sequence[Writer]) -> Reason:
    """Return why a record, or those of a key, may not have been found."""
    none = f"no record of key {subject} is" if kind is QuestionKind.KEY else f"record {subject} is not"
    bound = f"only {counted(finder.WALK, 'record')} of each partition were searched; search all with --scan"
    also = (bound,) if missing.cut else ()
    if open_writers:
        text = f"{none} visible, but a transaction that may hold it is still open: {_oldest(open_writers)}"
        return Reason(Code.OPEN_TRANSACTION, text, also=also)
    if missing.gone:
        ever = "there ever was one" if kind is QuestionKind.KEY else "it ever was"
        where = "its partition" if kind is QuestionKind.KEY else "its time"
        text = f"{none} in the log any more, if {ever}: retention has deleted records of {where}"
        return Reason(Code.GONE, text, also=also)
    if missing.cut:
        return Reason(Code.UNKNOWN, f"{none} in the part of the log that was searched", also=also)
    what = f"of key {subject}" if kind is QuestionKind.KEY else subject
    ends = "rolled back, cancelled before it was due or deleted by retention"
    if not missing.trimmed:
        ends = "rolled back or cancelled before it was due"
    return Reason(Code.UNKNOWN, f"there is no record {what}: it was never published, or was {ends}")
