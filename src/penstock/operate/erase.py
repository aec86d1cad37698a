"""Erases the events of an owner: all that were published with its tag, in every state.

Staged and scheduled events are deleted; records in the log lose key, value, headers and owner in place and keep their
offset, as type `penstock.erased`, which readers skip; records that wait in lanes and dead letters are deleted, with the
error texts and lane names that may quote them; tokens are deleted, too. Each transaction erases up to `BATCH` events
completely; after a crash in between, run it again. The other records of the same keys are still delivered in order.
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, fields
from functools import partial
from hashlib import sha256
from itertools import groupby
from operator import itemgetter

from penstock import points
from penstock.clock import SYSTEM, Clock, own_ms
from penstock.database.contract import Row
from penstock.database.database import Transaction
from penstock.delivery.dead import DeadLetters, Decided
from penstock.errors import UnknownTopic
from penstock.log.contract import Log, Position, Topic
from penstock.log.store import Store
from penstock.model.limits import LimitsSettings, check_owner

from . import audit
from .members import living_at, touch_readers
from .operation import operation

BATCH = 500  # events erased in one transaction
PAGE = 1000  # waiting records counted in one step

BEFORE_COMMIT = points.declare("erase.before_commit", "Some events are erased; not committed.")
AFTER_BATCH = points.declare("erase.after_batch", "Some events are erased and committed; more may follow.")


@dataclass(frozen=True, slots=True)
class Erased:
    """How many events of an owner were erased, or would be, by the place they were in.

    `waiting` and `dead` count copies of records, one per group; a record may count in several places.
    """

    staged: int = 0
    scheduled: int = 0
    logged: int = 0
    waiting: int = 0
    dead: int = 0

    def __add__(self, other: "Erased") -> "Erased":
        return Erased(*(getattr(self, each.name) + getattr(other, each.name) for each in fields(self)))

    @property
    def count(self) -> int:
        """The total."""
        return sum(getattr(self, each.name) for each in fields(self))


@operation
def count_owner(store: Store, owner: str) -> Erased:
    """Return how many events an owner has; changes nothing. Raises InvalidOwner."""
    check_owner(owner, LimitsSettings.load())

    def look(tx: Transaction) -> Erased:
        ((staged, scheduled, waiting, dead),) = tx.rows("operate", "owner_counted", owner=owner)
        log = store.log_in(tx)
        waiting += _waiting_uncopied(tx, log, owner)
        return Erased(staged, scheduled, log.count_owned(owner), waiting, dead)

    return store.database.look(look)


def _waiting_uncopied(tx: Transaction, log: Log, owner: str) -> int:
    """Count an owner's waiting records without a copy in their lane: only the log holds their owner tag."""
    topics, count, after = {each.id: each for each in log.topics()}, 0, (0, 0, 0, -1)
    while True:
        place = dict(zip(("after_group", "after_topic", "after_partition", "after_offset"), after, strict=True))
        rows = tx.rows("operate", "entries_page", topic_id=None, group_id=None, limit=PAGE, **place)
        uncopied = [row[:4] for row in rows if row[5] is None and row[1] in topics]
        for (_, topic_id), each in groupby(uncopied, key=itemgetter(0, 1)):
            places = [Position(partition, offset) for _, _, partition, offset in each]
            count += sum(entry.owner == owner for entry in log.at(topics[topic_id], places, bare=True))
        if len(rows) < PAGE:
            return count
        after = rows[-1][:4]


@operation
def erase(store: Store, owner: str, *, clock: Clock = SYSTEM) -> Erased:
    """Erase all events of an owner; return how many. Safe while workers run, and safe to repeat.

    Raises InvalidOwner, WriterElsewhere.
    """
    check_owner(owner, LimitsSettings.load())
    store.log.claim()
    eraser = _Eraser(store, owner, clock)
    total = Erased()
    while (done := eraser.round()).count:
        total += done
    return total


class _Eraser:
    """Erases one owner in rounds: events move on meanwhile, so it repeats until a round finds none."""

    def __init__(self, store: Store, owner: str, clock: Clock) -> None:
        self._store, self._database, self._owner, self._clock = store, store.database, owner, clock

    def round(self) -> Erased:
        """Erase up to a batch of each kind, in the order in which events move."""
        done = self._run(partial(self._unpublished, "staged"))
        done += self._run(partial(self._unpublished, "scheduled"))
        for found in self._found():
            for topic, places, ids in self._by_topic(found):
                if not self._store.is_one:
                    done += self._run(partial(self._erase, topic, places, ids, False))
                done += self._run(partial(self._erase, topic, places, ids, True))
        return done

    def _run(self, work: "partial[Erased]") -> Erased:
        done = self._database.run(work)
        points.reach(AFTER_BATCH)
        return done

    def _found(self) -> Iterator[list[Row]]:
        """Yield topic, place and id of some of the owner's records: in the log, then in lanes and dead letters."""
        logged = self._store.log.owned(self._owner, BATCH)
        yield [(topic_id, each.partition, each.offset, each.id) for topic_id, each in logged]
        yield self._database.look(lambda tx: tx.rows("operate", "erase_find", owner=self._owner, limit=BATCH))

    def _by_topic(self, found: list[Row]) -> Iterator[tuple[Topic, list[Position], list[str]]]:
        topics = {each.id: each for each in self._store.log.topics()} if found else {}
        for topic_id, rows in groupby(sorted(found), key=itemgetter(0)):
            of_topic = list(rows)
            gone = Topic(topic_id, "", 0, "")  # the topic was deleted; its letters may still exist for a moment
            yield topics.get(topic_id, gone), [Position(*row[1:3]) for row in of_topic], [row[3] for row in of_topic]

    def _unpublished(self, kind: str, tx: Transaction) -> Erased:
        rows = tx.rows("outbox", f"erase_{kind}", owner=self._owner, limit=BATCH)
        done = Erased(**{kind: len(rows)})
        self._finish(tx, [row[1] for row in rows], done)
        return done

    def _erase(
        self, topic: Topic, places: list[Position], ids: list[str], also_logged: bool, tx: Transaction
    ) -> Erased:
        """Erase records of one topic everywhere. Locks domains, then cursors, each in order; the log last.

        A log outside the database is not rolled back with it, and its tags are how the other copies are found. There a
        transaction without the log comes first, so a crash after erasing in the log leaves no copy.
        """
        groups, decided = sorted(touch_readers(tx, topic.id)), Decided()
        for group in groups:
            # All domains are touched already, before the first cursor is locked.
            letters = DeadLetters(group, topic.id, living=living_at(self._clock), touch=lambda *_: None)
            decided += letters.erase(tx, places)
        log, logged = self._store.log_in(tx), 0
        if also_logged:
            with suppress(UnknownTopic):  # a deleted topic may have left letters behind
                logged = log.erase(topic, places, owner=self._owner)
        done = Erased(logged=logged, waiting=decided.alone, dead=decided.count)
        self._finish(tx, ids, done)
        return done

    def _finish(self, tx: Transaction, ids: list[str], done: Erased) -> None:
        if ids:
            tx.change("outbox", "tokens_erase", ids=ids)
        if done.count:
            audit.write(tx, "erase", {"owner_sha256": digest(self._owner)}, done.count, own_ms(self._clock))
        points.reach(BEFORE_COMMIT)


def digest(owner: str) -> str:
    """Return the hash that the audit stores: searchable by the tag, but the tag cannot be read from it."""
    return sha256(owner.encode()).hexdigest()
