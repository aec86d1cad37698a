"""Erase by owner: all events that were published with a tag, in every state they can be in.

Staged and scheduled events are deleted; records in the log lose key, value, headers and owner in place and
keep their offset, as type `penstock.erased`, which readers pass over; what waits in lanes and what lies as a
dead letter goes, with the error texts and lane names that may quote it; and so do the tokens. A transaction
takes up to `BATCH` events and is whole: killed in between, run it again. Handlers of the other records of
the same keys go on in order.
"""

from dataclasses import dataclass, fields
from functools import partial
from hashlib import sha256
from itertools import groupby
from operator import itemgetter

from penstock import points
from penstock.clock import SYSTEM, Clock, own_ms
from penstock.delivery.dead import DeadLetters, Decided, Place
from penstock.log.sql.contract import Row, Rows
from penstock.log.sql.database import Database, Transaction
from penstock.membership.domain import touch
from penstock.membership.member import ClusterSettings, Member
from penstock.membership.serving import Domain
from penstock.model.limits import LimitsSettings, check_owner

from . import audit

BATCH = 500  # events erased in one transaction

BEFORE_COMMIT = points.declare("erase.before_commit", "Some events are erased; not committed.")
AFTER_BATCH = points.declare("erase.after_batch", "Some events are erased and committed; more may follow.")


@dataclass(frozen=True, slots=True)
class Erased:
    """How many events of an owner were erased, by the place they were in, or would be.

    `waiting` and `dead` are copies of records, one for each group; a record may count in several places.
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
        """All together."""
        return sum(getattr(self, each.name) for each in fields(self))


def count_owner(database: Database, owner: str) -> Erased:
    """Return what there is of an owner, changing nothing. Raises InvalidOwner."""
    check_owner(owner, LimitsSettings.load())
    ((*counts,),) = database.look(lambda tx: tx.rows("operate", "owner_counted", owner=owner))
    return Erased(*counts)


def erase(database: Database, owner: str, *, clock: Clock = SYSTEM) -> Erased:
    """Erase all events of an owner; return how many. Safe while workers run, and to run again.

    Raises InvalidOwner.
    """
    check_owner(owner, LimitsSettings.load())
    eraser = _Eraser(database, owner, clock)
    total = Erased()
    while (done := eraser.round()).count:
        total += done
    return total


class _Eraser:
    """Erases one owner, in rounds: events move on meanwhile, so it looks until it finds nothing anywhere."""

    def __init__(self, database: Database, owner: str, clock: Clock) -> None:
        self._database, self._owner, self._clock = database, owner, clock
        self._member = Member(database, ClusterSettings.load(), clock)  # only asked who lives; it never joins

    def round(self) -> Erased:
        """Erase up to a batch of each kind, in the order in which events move."""
        done = self._run(partial(self._unpublished, "staged"))
        done += self._run(partial(self._unpublished, "scheduled"))
        for room in ("log", "delivery"):
            for topic_id, places, ids in self._found(room):
                done += self._run(partial(self._logged, topic_id, places, ids))
        return done

    def _run(self, work: "partial[Erased]") -> Erased:
        done = self._database.run(work)
        points.reach(AFTER_BATCH)
        return done

    def _found(self, room: str) -> list[tuple[int, list[Place], list[str]]]:
        """Return places and ids of the owner's records, by topic."""
        rows: list[Row] = sorted(
            self._database.look(lambda tx: tx.rows(room, "erase_find", owner=self._owner, limit=BATCH))
        )
        found = []
        for topic_id, each in groupby(rows, key=itemgetter(0)):
            _, partitions, offsets, ids = zip(*each, strict=True)
            found.append((topic_id, list(zip(partitions, offsets, strict=True)), list(ids)))
        return found

    def _unpublished(self, kind: str, tx: Transaction) -> Erased:
        rows = tx.rows("outbox", f"erase_{kind}", owner=self._owner, limit=BATCH)
        done = Erased(**{kind: len(rows)})
        self._finish(tx, [row[0] for row in rows], done)
        return done

    def _logged(self, topic_id: int, places: list[Place], ids: list[str], tx: Transaction) -> Erased:
        """Erase records of one topic everywhere: domains first, then cursors, each in their order."""
        groups = sorted(row[0] for row in tx.rows("operate", "groups_on_topic", topic_id=topic_id))
        for domain in sorted((Domain(group, topic_id) for group in groups), key=lambda each: each.name):
            touch(tx, domain)
        decided = Decided()
        for group in groups:
            letters = DeadLetters(group, topic_id, living=self._member.living, touch=_touched)
            decided += letters.erase(tx, places)
        partitions, offsets = (list(column) for column in zip(*places, strict=True))
        table = Rows(partition=partitions, place=offsets)
        logged = tx.change("log", "erase_records", owner=self._owner, topic_id=topic_id, places=table)
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
    """Return what the audit says of an owner: whoever knows the tag can find it, nobody can read it."""
    return sha256(owner.encode()).hexdigest()


def _touched(tx: Transaction, group: int, topic: int) -> None:
    """Do nothing: all domains were touched before the first cursor was locked."""
