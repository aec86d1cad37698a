"""The sequencer: moves the staged rows of the slots that a member owns into the log.

One pass: a look without locks for slots with rows; then one transaction that locks and fences those slots, picks due
rows and then staged rows on a snapshot newer than the lock, and moves them. A few staged rows go in one round trip
where the database supports that (`move_whole`). A later pass finds rows that commit after the pick; nothing is
remembered between passes that could hide a row (with a remembered lower bound, an event that commits late would follow
a newer one of its key).
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from penstock import metrics, points, tracing
from penstock.clock import Clock, own_ms
from penstock.database.contract import Call
from penstock.database.database import Transaction
from penstock.errors import Undecodable
from penstock.log.contract import Topic
from penstock.log.entry import Entry
from penstock.log.sql.heads import Fence, HeadKey
from penstock.log.sql.topics import keeping, kept
from penstock.log.store import Store
from penstock.model.context import context_of
from penstock.model.record import TRACEPARENT
from penstock.settings import Settings, setting
from penstock.wire.kafka.headers import decode_headers

from .move import MOST_RECORDS, Pick, move, move_whole, picked
from .relay import Relay, Relayed

BEFORE_MOVE = points.declare("sequencer.before_move", "Slots with work are known; nothing is locked or sent.")
AFTER_FENCE = points.declare("sequencer.after_fence", "The slots are locked; nothing is picked.")
AFTER_PICK = points.declare("sequencer.after_pick", "Rows are picked; nothing is written.")
BEFORE_COMMIT = points.declare("sequencer.before_commit", "Rows are in the log and gone from staging; not committed.")
AFTER_COMMIT = points.declare("sequencer.after_commit", "The move is committed; no other thread knows yet.")


class SequencerSettings(Settings, room="sequencer"):
    """How events are moved from staging into the log."""

    batch_records: int = setting(2000, "Most rows moved in one transaction.", at_least=1, at_most=100_000)


HeadEnds = Mapping[HeadKey, int]


@dataclass(frozen=True, slots=True)
class Pass:
    """The result of one pass."""

    moved: int
    fenced: int  # slots that turned out to have another owner
    full: bool  # it stopped at its limit, so more rows are waiting
    ends: HeadEnds = field(default_factory=dict)  # the new ends of the partitions it added to
    entries: Sequence[tuple[int, Entry]] = ()  # the moved records with their topic ids, unless too many bytes


_NOTHING = Pass(0, 0, False)


class Backlog(NamedTuple):
    """The events that wait to be moved, counted up to a bound, and the moments of the oldest ones."""

    staged: int
    scheduled: int
    staged_since_ms: int | None
    due_since_ms: int | None


def read_backlog(tx: Transaction, most: int) -> Backlog:
    """Return how many events wait, counting no further than `most`."""
    [row] = tx.rows("outbox", "gauge_backlog", most=most)
    return Backlog(*row)


class Sequencer:
    """Moves staged rows. One thread at a time; safe against any number of other sequencers."""

    def __init__(self, store: Store, settings: SequencerSettings, clock: Clock, *, hand_over_bytes: int = 0) -> None:
        """`hand_over_bytes`: a pass that moves no more than that returns the records."""
        self._database, self._settings, self._clock = store.database, settings, clock
        self._hand_over_bytes = hand_over_bytes
        self._is_calm = True  # the last move was a small one
        self._relay = None if store.is_one else Relay(store.log)
        self._per_slot = settings.batch_records
        self._turn = 0
        self._spans = SequenceSpans()
        self._topics: set[str] = set()  # the topics of the last move,
        self._kept: dict[str, Topic] = {}  # and those of them that exist, locked by this transaction

    def sequence(self, fence: Fence, rung: Collection[int] | None = None, *, expects: bool = False) -> Pass:
        """Make one pass; over the `rung` slots without a look. `expects` work: the look goes with the move."""
        goes_at_once = self._goes_at_once()
        if rung is not None:
            slots = sorted(fence.epochs.keys() & rung)
        else:
            slots = fence.slots() if expects and goes_at_once else self._waiting(fence.slots())
        if not slots:
            return _NOTHING
        points.reach(BEFORE_MOVE)
        done = self._at_once(fence, slots) if goes_at_once else self._fenced(fence, slots)
        self._is_calm = done.moved < MOST_RECORDS
        points.reach(AFTER_COMMIT)
        if done.moved:
            metrics.SEQUENCED.add(done.moved)
        return done

    def _waiting(self, slots: list[int]) -> list[int]:
        """Return the slots that seem to have rows, beginning with another one each time, so none starves."""
        if not slots:
            return []
        params = {"slots": slots, "limit": self._settings.batch_records, "now_ms": own_ms(self._clock)}
        waiting = sorted(row[0] for row in self._database.look(lambda tx: tx.rows("outbox", "probe", **params)))
        self._turn += 1
        start = self._turn % len(waiting) if waiting else 0
        return waiting[start:] + waiting[:start]

    def _goes_at_once(self) -> bool:
        """Return whether to try one round trip: for a few rows, and not if a test needs its steps."""
        dialect = self._database.dialect
        if self._relay is not None or not self._is_calm or not dialect.whole_trips or dialect.lacks:
            return False
        return not tracing.is_on() and not points.is_armed(AFTER_FENCE, AFTER_PICK, BEFORE_COMMIT)

    def _at_once(self, fence: Fence, slots: list[int]) -> Pass:
        limit = min(MOST_RECORDS, self._settings.batch_records)
        found = move_whole(self._database, self._clock, fence, slots, limit=limit, hand_over=self._hand_over_bytes)
        done = Pass(found.moved, found.fenced, False, found.ends, found.entries)
        if not found.is_due and found.moved == found.picked:
            return done
        slots = self._waiting(slots)
        if not slots:
            return done
        rest = self._fenced(fence, slots)
        return replace(rest, moved=done.moved + rest.moved, ends={**done.ends, **rest.ends}, entries=done.entries)

    def _fenced(self, fence: Fence, slots: list[int]) -> Pass:
        try:
            done = self._database.run(lambda tx: self._move(tx, fence, slots), first=[fence.locking(slots)])
        except BaseException as error:
            self._spans.end(error)
            raise
        self._spans.end()
        if self._relay is not None:
            self._relay.committed()
        return done

    def _move(self, tx: Transaction, fence: Fence, slots: list[int]) -> Pass:
        if self._relay is not None:
            self._relay.begin()
        mine = {row[0] for row in tx.opened[0].rows}
        points.reach(AFTER_FENCE)
        slots, asked = [slot for slot in slots if slot in mine], len(slots)
        if not slots:
            return Pass(0, asked, False)
        picks = self._pick(tx, slots)
        if tracing.is_on():
            self._spans.begin(tx, picks)
        points.reach(AFTER_PICK)
        moved, left, ends = Relayed(0, False, {})
        if any(pick.rows for pick in picks):
            moved, left, ends = self._moved(tx, picks, fence)
            self._topics = {row.topic for pick in picks for row in pick.rows}
        points.reach(BEFORE_COMMIT)
        return Pass(moved, asked - len(slots), self._full(picks, len(slots)) or left, ends)

    def _moved(self, tx: Transaction, picks: list[Pick], fence: Fence) -> Relayed:
        if self._relay is not None:
            return self._relay.move(tx, picks, fence.epochs)
        in_one = "writing_with" not in self._database.dialect.lacks
        raised = move(tx, picks, self._kept, in_one_statement=in_one, now_ms=own_ms(self._clock))
        ends = {HeadKey(one.topic_id, one.partition): one.base + one.added for one in raised}
        return Relayed(sum(one.added for one in raised), False, ends)

    def _pick(self, tx: Transaction, slots: list[int]) -> list[Pick]:
        """Pick due rows, then staged ones, by offset; lock the topics of the last pass, usually the same, too."""
        limit = self._settings.batch_records
        self._per_slot = max(self._per_slot, -(-limit // len(slots)))
        calls = [
            Call("outbox", "pick_due", {"slots": slots, "limit": limit, "now_ms": own_ms(self._clock)}),
            Call("outbox", "pick_staged", {"slots": slots, "limit": limit, "per_slot": self._per_slot}),
        ]
        if self._relay is None:
            calls.append(keeping(self._topics))
        due, staged, *topics = tx.execute_all(calls)
        picks = [Pick("scheduled", picked(due.rows)), Pick("staged", picked(staged.rows))]
        if len(due.rows) == limit:  # staged rows follow earlier due rows, so they wait for the rest of those
            del picks[1]
        self._kept = kept(row for each in topics for row in each.rows)
        return picks

    def _full(self, picks: list[Pick], slots: int) -> bool:
        """Return whether more rows are waiting, and adapt the limit per slot.

        Even shares would starve a hot key: a slot that fills its share of a batch that is not full doubles the share.
        """
        limit = self._settings.batch_records
        if any(len(pick.rows) >= limit for pick in picks):
            self._per_slot = -(-limit // slots)
            return True
        counts = Counter(row.slot for pick in picks if pick.table == "staged" for row in pick.rows)
        if counts and max(counts.values()) >= self._per_slot:
            self._per_slot = min(self._per_slot * 2, limit)
            return True
        return False


class SequenceSpans:
    """The spans of a pass: each moved event has one in its own trace, from the pick to the commit.

    Only while tracing is on: then the headers of the picked rows are read too, and a pass goes step by step.
    """

    def __init__(self) -> None:
        self._open: list[Any] = []

    def begin(self, tx: Transaction, picks: Sequence[Pick]) -> None:
        """Open a span for each event of the picks that was published in a trace."""
        self.end()  # of a move that is retried
        for pick in picks:
            if pick.rows:
                for id, topic, headers in tx.rows("outbox", f"traces_{pick.table}", **pick.ids):
                    self._begin(id, topic, headers)

    def end(self, error: BaseException | None = None) -> None:
        """Close all spans."""
        for each in self._open:
            if error is not None:
                tracing.failed(each, error)
            each.end()
        self._open = []

    def _begin(self, id: str, topic: str, headers: bytes) -> None:
        try:
            parent = context_of(decode_headers(headers))
        except Undecodable:  # not published here
            return
        if TRACEPARENT in parent:
            self._open.append(tracing.begun_span("penstock.sequence", parent, id=id, topic=topic))
