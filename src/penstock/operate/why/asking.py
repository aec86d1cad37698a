"""`why`: from what a person names to an answer for each group concerned."""

from collections.abc import Iterator
from dataclasses import dataclass

from penstock.clock import SYSTEM, Clock, from_ms
from penstock.errors import UnknownGroup
from penstock.log.contract import Log, Topic
from penstock.log.sql.database import Transaction
from penstock.log.store import Store
from penstock.model.limits import ERASED

from ..lookup import storable
from ..operation import operation
from .answer import Answer, Code, QuestionKind
from .explaining import Reason, explain
from .finding import Finder, Logged, Missing, UnloggedEvent, looks_like_id, partition_of
from .history import History
from .members import Members
from .standing import Cursor, StandingReader, StoredGroup, group_of, key_lane
from .unlogged import Writer, explain_cancelled, explain_erased, explain_missing, explain_staged, writers
from .wholes import topics_of


@operation
def why(
    store: Store,
    subject: str,
    *,
    kind: QuestionKind | None = None,
    group: str | None = None,
    topic: str | None = None,
    key: str | None = None,
    everything: bool = False,
    clock: Clock = SYSTEM,
) -> list[Answer]:
    """Return why a record, a key or a group has not been delivered, an answer for each group concerned.

    `kind` says what `subject` is; else a UUID that is found is an id, then comes a group of that name, then
    a key. `group` and `topic` narrow it; `key` tells in which partition an id is to be looked for, and
    `everything` lets the search for it go through the whole log. Raises UnknownGroup for `group`, and for a
    subject that must be one.
    """
    open_writers = writers(store)

    def look(tx: Transaction) -> list[Answer]:
        log = store.log_in(tx)
        return _Question(tx, log, subject, group, topic, everything, clock, open_writers).answers(kind, key)

    return store.database.look_once(look)


@dataclass(frozen=True, slots=True)
class _Asked:
    """What was asked about, once it is known."""

    subject: str
    kind: QuestionKind

    def answer(self, reason: Reason, group: str | None, id: str | None, place: str | None) -> Answer:
        return Answer(
            subject=self.subject,
            kind=self.kind,
            group=group,
            code=reason.code,
            sentence=f"{reason.sentence}.",
            since=None if reason.since_ms is None else from_ms(reason.since_ms),
            until=None if reason.until_ms is None else from_ms(reason.until_ms),
            commands=reason.commands,
            also=tuple(f"{each}." for each in reason.also),
            id=id,
            place=place,
        )


class _Question:
    """One question, on one snapshot."""

    def __init__(
        self,
        tx: Transaction,
        log: Log,
        subject: str,
        group: str | None,
        topic: str | None,
        everything: bool,
        clock: Clock,
        open_writers: list[Writer],
    ) -> None:
        self._tx, self._log, self._subject, self._writers = tx, log, subject, open_writers
        self._now_ms = clock.now_ms()
        topics = [each for each in log.topics() if topic in (None, each.name)]
        self._only = None if topic is None else (topics[0].id if topics else 0)
        self._group = None if group is None else self._found(group)
        only = None if topic is None else storable(topic)
        self._finder = Finder(tx, log, topics, only, everything=everything)
        self._members = Members(tx, clock)
        self._reader = StandingReader(tx, self._finder, self._members)

    def answers(self, kind: QuestionKind | None, key: str | None) -> list[Answer]:
        """Return the answers, whatever the subject turns out to be."""
        text = storable(self._subject)
        if kind is QuestionKind.ID:
            return self._of_id(self._finder.by_id(text, key))
        if kind is QuestionKind.KEY:
            return self._of_key() or self._of_nothing(QuestionKind.KEY)
        if kind is QuestionKind.GROUP:
            return self._of_group(self._found(self._subject))
        if looks_like_id(text):
            found = self._finder.by_id(text, key)
            if not isinstance(found, Missing):
                return self._of_id(found)
            return self._of_group(self._group_named(text)) or self._of_key() or self._of_id(found)
        return (
            self._of_group(self._group_named(text))
            or self._of_key()
            or self._of_found(self._finder.by_id(text, key))
            or self._of_nothing(QuestionKind.KEY)
        )

    # -- a record

    def _of_found(self, found: UnloggedEvent | Logged | Missing) -> list[Answer]:
        return [] if isinstance(found, Missing) else self._of_id(found)

    def _of_id(self, found: UnloggedEvent | Logged | Missing) -> list[Answer]:
        asked = _Asked(self._subject, QuestionKind.ID)
        if isinstance(found, Missing):
            return [asked.answer(self._missing(found), None, self._subject, None)]
        if isinstance(found, UnloggedEvent):
            return [self._staged(asked, found)]
        if found.type == ERASED:
            return [asked.answer(explain_erased(found), None, found.id, found.place)]
        answers = [
            self._logged(asked, group, cursor, found)
            for group, cursor in self._groups(found.topic, found.partition)
        ]
        return answers or [self._unread(asked, found.topic, found)]

    def _missing(self, missing: Missing) -> Reason:
        act = History(self._tx).cancelled(self._subject)
        if act is not None:
            return explain_cancelled(self._subject, act, self._now_ms)
        return explain_missing(self._subject, QuestionKind.ID, missing, self._writers)

    def _staged(self, asked: _Asked, event: UnloggedEvent) -> Answer:
        reason = explain_staged(self._tx, self._members, event, asked.kind, self._now_ms)
        return asked.answer(reason, None, event.id, None)

    def _logged(self, asked: _Asked, group: StoredGroup, cursor: Cursor, record: Logged) -> Answer:
        standing = self._reader.standing(group, cursor, record)
        reason = explain(standing, asked.kind, self._now_ms)
        return asked.answer(reason, group.name, record.id or None, record.place)

    def _unread(self, asked: _Asked, topic: Topic, record: Logged) -> Answer:
        """Answer for a record that no group reads."""
        group = None if self._group is None else self._group.name
        who = "no group reads" if group is None else f"group {group} does not read"
        what = self._subject if asked.kind is QuestionKind.KEY else f"record {record.id}"
        reason = Reason(Code.NO_HANDLER, f"{what} is delivered to nobody: {who} topic {topic.name}")
        return asked.answer(reason, group, record.id, record.place)

    def _groups(self, topic: Topic, number: int) -> Iterator[tuple[StoredGroup, Cursor]]:
        return self._reader.groups(topic, number, None if self._group is None else self._group.id)

    # -- a key

    def _of_key(self) -> list[Answer]:
        """Return answers for the first record of the key that waits, in each group; none without records."""
        asked = _Asked(self._subject, QuestionKind.KEY)
        answers = []
        for topic in self._finder.topics():
            last = self._finder.last_of_key(topic, self._subject)
            groups = list(self._groups(topic, partition_of(topic, self._subject)))
            for group, cursor in groups:
                first = self._first_before(group, topic) or self._first(group, cursor, topic) or last
                if first is not None:
                    answers.append(self._logged(asked, group, self._cursor(group, cursor, first), first))
            if last is not None and not groups:
                answers.append(self._unread(asked, topic, last))
        answers.sort(key=lambda each: not (each.code.waits or each.code is Code.HELD))
        return answers + [self._staged(asked, event) for event in self._finder.waiting(self._subject)]

    def _first_before(self, group: StoredGroup, topic: Topic) -> Logged | None:
        """Return the first record that waits in a partition where the key was before the topic grew."""
        for number in reversed(self._finder.partitions_of(topic, self._subject)[1:]):
            for _, cursor in self._reader.groups(topic, number, group.id):
                first = self._first(group, cursor, topic, number)
                standing = None if first is None else self._reader.standing(group, cursor, first)
                if standing is not None and (not standing.passed or standing.holder is not None):
                    return first
        return None

    def _cursor(self, group: StoredGroup, cursor: Cursor, record: Logged) -> Cursor:
        """Return where a group is in the partition of a record, which may not be the one of its key now."""
        if record.partition == partition_of(record.topic, self._subject):
            return cursor
        return next(self._reader.groups(record.topic, record.partition, group.id), (group, cursor))[1]

    def _first(
        self, group: StoredGroup, cursor: Cursor, topic: Topic, number: int | None = None
    ) -> Logged | None:
        """Return the record of the key that a group has to do with first; None when it is past them all."""
        key, reader, finder = self._subject, self._reader, self._finder
        number, own = partition_of(topic, key) if number is None else number, key_lane(key)
        lanes = reader.lanes(group, topic, number, own)
        letters = reader.letters(group, topic, number, lane=own, key=key)
        heads = [each.head for each in lanes if each.name == own and not each.held and each.head is not None]
        if any(each.name == own and each.held for each in lanes):
            heads = [each.offset for each in letters if each.holding and each.lane == own]
        if not heads:
            end = min(finder.bounds(topic, number)[1], cursor.offset + finder.walk)
            logged = finder.of_key(topic, number, key, cursor.offset, end)
            heads = [each.offset for each in logged if not cursor.is_passed(each.offset)][:1]
        heads = heads or [each.head for each in lanes if each.head is not None]
        heads = heads or [each.offset for each in letters[-1:]]
        if not heads:
            return None
        ids = {each.offset: each.id for each in letters}
        kept = Logged(topic, number, heads[0], ids.get(heads[0], ""), key, "", 0)
        return finder.at(topic, number, heads[0]) or kept

    def _of_nothing(self, kind: QuestionKind) -> list[Answer]:
        """Answer for a key without records."""
        asked = _Asked(self._subject, kind)
        cut = any(self._finder.is_cut(topic, self._subject) for topic in self._finder.topics())
        missing = Missing(cut, gone=False)
        reason = explain_missing(self._subject, kind, missing, self._writers)
        return [asked.answer(reason, None, None, None)]

    # -- a group

    def _of_group(self, group: StoredGroup | None) -> list[Answer]:
        if group is None:
            return []
        asked = _Asked(self._subject, QuestionKind.GROUP)
        answers = [
            asked.answer(reason, group.name, None, topic.name)
            for topic, reason in topics_of(self._tx, self._log, self._reader, group, self._only, self._now_ms)
        ]
        where = "any topic" if self._only is None else "that topic"
        nothing = Reason(Code.NO_HANDLER, f"group {group.name} does not read {where} yet")
        return answers or [asked.answer(nothing, group.name, None, None)]

    def _found(self, name: str) -> StoredGroup:
        found = self._group_named(storable(name))
        if found is None:
            raise UnknownGroup(name)
        return found

    def _group_named(self, name: str) -> StoredGroup | None:
        rows = self._tx.rows("delivery", "group_by_name", name=name)
        return group_of(rows[0]) if rows else None
