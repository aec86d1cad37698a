"""`why`: from a subject that a person names to an answer per group."""

from collections.abc import Sequence
from dataclasses import replace
from operator import itemgetter

from penstock.clock import SYSTEM, Clock, from_ms
from penstock.database.database import Transaction
from penstock.errors import UnknownGroup
from penstock.log.contract import Log, Topic
from penstock.log.store import Store
from penstock.model.limits import ERASED

from ..operation import SeesTopic, every_topic, operation, storable
from ..progress import reader_named, readers
from . import sentences as say
from .answer import Answer, Code, QuestionKind, Reason, counted
from .finder import Finder, Logged, Missing, UnloggedEvent, looks_like_id, partition_of
from .group_reasons import GroupReasons
from .history import History
from .key_records import UnsettledRecords, unsettled
from .members import Members
from .record_case import CaseReader, Cursor, StoredGroup, group_of
from .record_reasons import explain, of_record, of_whole
from .unlogged import OpenTransactions, blocked, explain_missing, explain_staged, open_transactions, unseen


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
    seen: SeesTopic = every_topic,
    clock: Clock = SYSTEM,
) -> list[Answer]:
    """Return why a record, a key or a group has not been delivered: one answer per group concerned.

    `kind` is the kind of `subject`; by default a UUID that is found is an id, else it is a group of that
    name, else a key. `group` and `topic` narrow the question; `key` tells the partition in which to search
    for an id, and `everything` searches the whole log. Answers cover only topics that are `seen`. Raises
    UnknownGroup for `group`, and for a subject that must be one.
    """
    opened = open_transactions(store)

    def look(tx: Transaction) -> list[Answer]:
        question = _Question(tx, store.log_in(tx), subject, group, topic, everything, seen, clock, opened)
        return question.answers(kind, key)

    return store.database.look_once(look)


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
        seen: SeesTopic,
        clock: Clock,
        opened: OpenTransactions,
    ) -> None:
        self._tx, self._log, self._subject, self._opened = tx, log, subject, opened
        self._now_ms = clock.now_ms()
        known = [each for each in log.topics() if topic in (None, each.name)]
        topics = [each for each in known if seen(each.name)]
        self._topic, self._seen = topic, seen
        self._group = None if group is None else self._found(group)
        only = None if topic is None else storable(topic)
        self._waits_on = [only] if len(topics) == len(known) else [each.name for each in topics]
        self._finder = Finder(tx, log, topics, only, everything=everything)
        self._members = Members(tx, clock)
        self._reader = CaseReader(tx, self._finder, self._members)
        self._group_reasons = GroupReasons(tx, log, self._reader, self._members, opened, self._now_ms)

    def answers(self, kind: QuestionKind | None, key: str | None) -> list[Answer]:
        text = storable(self._subject)
        if kind is QuestionKind.ID:
            return self._of_id(self._by_id(text, key))
        if kind is QuestionKind.KEY:
            return self._of_key() or self._of_nothing()
        if kind is QuestionKind.GROUP:
            group = self._group_named(text)
            return self._of_group(group) or self._of_group(self._found(self._subject))
        is_id = looks_like_id(text)
        found = self._by_id(text, key) if is_id else None
        if found is not None and not isinstance(found, Missing):
            return self._of_id(found)
        answers = self._of_group_named(text) or self._of_key()
        if answers:
            return answers
        found = found or self._by_id(text, key)
        return self._of_id(found) if is_id or not isinstance(found, Missing) else self._of_nothing()

    def _by_id(self, id: str, key: str | None) -> UnloggedEvent | Logged | Missing:
        found = self._finder.by_id(id, key)
        if isinstance(found, UnloggedEvent) and not self._seen(found.topic):
            return Missing(cut=False, gone=False)
        return found

    def _answer(
        self, kind: QuestionKind, reason: Reason, group: str | None, id: str | None, place: str | None, count: int = 0
    ) -> Answer:
        return Answer(
            subject=self._subject,
            kind=kind,
            group=group,
            code=reason.code,
            sentence=f"{reason.sentence}.",
            since=None if reason.since_ms is None else from_ms(reason.since_ms),
            until=None if reason.until_ms is None else from_ms(reason.until_ms),
            commands=reason.commands,
            also=tuple(f"{each}." for each in reason.also),
            id=id,
            place=place,
            unsettled=count,
        )

    # -- a record

    def _of_id(self, found: UnloggedEvent | Logged | Missing) -> list[Answer]:
        kind = QuestionKind.ID
        if isinstance(found, Missing):
            reason = explain_missing(self._subject, kind, found, self._opened.writers)
            act = History(self._tx).cancelled(self._subject)
            if act is not None:
                text = f"record {self._subject} was scheduled, and {say.done(act, self._now_ms)}"
                reason = Reason(Code.CANCELLED, text, act.at_ms)
            return [self._answer(kind, reason, None, self._subject, None)]
        if isinstance(found, UnloggedEvent):
            return [self._staged(kind, found)]
        if found.type == ERASED:
            text = f"record {found.id} was erased: {found.place} is empty now and is not delivered"
            return [self._answer(kind, Reason(Code.ERASED, text), None, found.id, found.place)]
        answers = []
        for group, cursor in self._groups(found.topic, found.partition):
            reason = self._explained(group, cursor, found, kind)
            answers.append(self._answer(kind, reason, group.name, found.id or None, found.place))
        answers = answers or [self._unread(kind, found.topic, found)]
        return answers + self._of_readers(kind, found)

    def _of_readers(self, kind: QuestionKind, record: Logged) -> list[Answer]:
        """Return answers for readers that are not groups; none if a group was given."""
        found = [] if self._group is not None else readers(self._log)
        return [
            self._answer(kind, reason, each.name, record.id or None, record.place)
            for each in found
            if (reason := of_record(each, record, kind)) is not None
        ]

    def _staged(self, kind: QuestionKind, event: UnloggedEvent) -> Answer:
        reason = explain_staged(self._tx, self._members, event, kind, self._now_ms, self._opened)
        return self._answer(kind, reason, None, event.id, None)

    def _explained(self, group: StoredGroup, cursor: Cursor, record: Logged, kind: QuestionKind) -> Reason:
        """Return why a record waits in a group, with the open transaction that blocks workers, if any."""
        reason = explain(self._reader.case(group, cursor, record), kind, self._now_ms)
        lockers = self._opened.long_lockers()
        if not lockers or not reason.code.waits:
            return reason
        return replace(reason, also=(*reason.also, blocked(lockers)))

    def _unread(self, kind: QuestionKind, topic: Topic, record: Logged) -> Answer:
        group = None if self._group is None else self._group.name
        who = "no group reads" if group is None else f"group {group} does not read"
        what = self._subject if kind is QuestionKind.KEY else f"record {record.id}"
        coming = self._group_reasons.about_to_read(topic.name)
        if coming is not None:
            reason = replace(coming, sentence=f"{what} is not delivered yet: {coming.sentence}")
        else:
            text = f"{what} is not delivered: {who} topic {topic.name}"
            reason = Reason(Code.NO_HANDLER, text, commands=(say.WORKER,))
        return self._answer(kind, reason, group, record.id, record.place)

    def _groups(self, topic: Topic, number: int) -> list[tuple[StoredGroup, Cursor]]:
        return self._reader.groups(topic, number, None if self._group is None else self._group.id)

    # -- a key

    def _of_key(self) -> list[Answer]:
        """Return an answer for each group, about the first waiting record of the key and all others.

        Empty without records: then all partitions were searched.
        """
        answers = self._search_key()
        if not answers:
            self._finder.look_anywhere()
            answers = self._search_key()
        return answers

    def _search_key(self) -> list[Answer]:
        kind = QuestionKind.KEY
        answers, beside = list[Answer](), list[Answer]()
        for topic in self._finder.topics:
            last = self._finder.last_of_key(topic, self._subject)
            number = partition_of(topic, self._subject)
            groups = self._groups(topic, number)
            found = self._unsettled(groups, topic)
            self._reader.look_ahead([] if last is None else [last])
            for (group, _), (at, left) in zip(groups, found, strict=True):
                if left[0].first is not None or last is not None:
                    answers.append(self._key_in(group, at, left, last))
            if last is not None and not groups:
                answers.append(self._unread(kind, topic, last))
            beside += [] if last is None else self._of_readers(kind, last)
        answers.sort(key=lambda each: not (each.code.waits or each.code is Code.HELD))
        return answers + beside + [each for topic in self._waits_on for each in self._unlogged_on(topic)]

    def _unsettled(
        self, groups: Sequence[tuple[StoredGroup, Cursor]], topic: Topic
    ) -> list[tuple[Cursor, list[UnsettledRecords]]]:
        """Return, for each group, its cursor and the unsettled records of the key, in delivery order.

        Before its topic grew the key was in another partition, and its records left there come first. Records
        that a client put into other partitions block no others, and come last, unless the rest is done.
        """
        own, *others = self._finder.partitions_of(topic, self._subject)
        former = [each.partition for each in self._finder.former_places(topic, own)]
        strays = [each for each in others if each not in former]
        found: dict[int, list[tuple[int, Cursor, UnsettledRecords]]] = {group.id: [] for group, _ in groups}
        for number in (*reversed(former), own, *strays):
            here = [each for each in self._groups(topic, number) if each[0].id in found]
            left = unsettled(self._reader, self._finder, here, topic, number, self._subject)
            self._reader.look_ahead(each.first for each in left if each.first is not None)
            for (group, at), each in zip(here, left, strict=True):
                is_open = not others
                if others and each.first is not None:
                    case = self._reader.case(group, at, each.first)
                    is_open = not case.passed or case.holder is not None
                if is_open or number == own or (number in strays and each.first is not None):
                    rank = 0 if is_open else 1 if each.first is not None else 2
                    found[group.id].append((rank, at, replace(each, is_stray=number in strays)))
        ranked = [sorted(some, key=itemgetter(0)) for some in found.values()]
        return [(some[0][1], [each for _, _, each in some]) for some in ranked]

    def _key_in(
        self, group: StoredGroup, cursor: Cursor, unsettled: list[UnsettledRecords], last: Logged | None
    ) -> Answer:
        found, *later = unsettled
        kind, record = QuestionKind.KEY, found.first or last
        assert record is not None
        if found.first is None and record.partition != partition_of(record.topic, self._subject):
            here = self._reader.groups(record.topic, record.partition, group.id)
            cursor = here[0][1] if here else cursor
        reason = self._explained(group, cursor, record, kind)
        also, commands = found.others(group, self._now_ms)
        for each in later:
            if each.count:
                of, waits, wait = "of the key", "waits behind it", "wait behind it"
                if each.is_stray:
                    waits, wait = "is not settled", "are not settled"
                more = counted(each.count, f"more record {of} {waits}", f"more records {of} {wait}")
                also += (f"{more} in {each.place}",)
        reason = replace(reason, also=also + reason.also, commands=reason.commands + commands)
        writers = self._opened.long_writers()
        if reason.code is Code.DELIVERED and writers:
            reason = replace(reason, also=(*reason.also, unseen(writers)))
        count = sum(each.count for each in unsettled)
        return self._answer(kind, reason, group.name, record.id or None, record.place, count)

    def _unlogged_on(self, topic: str | None) -> list[Answer]:
        staged, scheduled = self._finder.waiting_count(self._subject, topic)
        answers = []
        for event in self._finder.waiting(self._subject, topic):
            if not self._seen(event.topic):
                continue
            count, state = (staged, "staged") if event.due_ms is None else (scheduled, "scheduled")
            answer = self._staged(QuestionKind.KEY, event)
            if count > 1:
                more = counted(count - 1, "more event of the key is", "more events of the key are")
                answer = replace(answer, also=(f"{more} {state} after it.", *answer.also))
            answers.append(replace(answer, unsettled=count))
        return answers

    def _of_nothing(self) -> list[Answer]:
        cut = any(self._finder.is_cut(topic, self._subject) for topic in self._finder.topics)
        gone = any(self._finder.is_gone(topic, self._subject) for topic in self._finder.topics)
        missing = Missing(cut, gone, self._finder.is_trimmed())
        reason = explain_missing(self._subject, QuestionKind.KEY, missing, self._opened.writers)
        return [self._answer(QuestionKind.KEY, reason, None, None, None)]

    # -- a group

    def _of_group_named(self, name: str) -> list[Answer]:
        """Return answers for the group of a name; none if the question names another group."""
        named = self._group_named(name)
        if self._group is not None and (named is None or named.id != self._group.id):
            return []
        return self._of_group(named)

    def _of_group(self, group: StoredGroup | None) -> list[Answer]:
        if group is None:
            return self._of_reader()
        kind = QuestionKind.GROUP
        reasons = list(self._group_reasons.of(group, self._topic))
        answers = [
            self._answer(kind, reason, group.name, None, topic) for topic, reason in reasons if self._seen(topic)
        ]
        if reasons and not answers:
            unseen_reason = Reason(Code.NO_HANDLER, f"group {group.name} reads no topic that you may see")
            return [self._answer(kind, unseen_reason, group.name, None, None)]
        where = "any topic" if self._topic is None else f"topic {self._topic}"
        text = f"group {group.name} does not read {where} yet: no worker with its handlers has run"
        nothing = Reason(Code.NO_HANDLER, text, commands=(say.WORKER,))
        return answers or [self._answer(kind, nothing, group.name, None, None)]

    def _of_reader(self) -> list[Answer]:
        """Return answers for a reader of that name that is not a group."""
        reader = reader_named(self._log, storable(self._subject))
        if reader is None:
            return []
        kind = QuestionKind.GROUP
        return [
            self._answer(kind, reason, reader.name, None, topic)
            for topic, reason in of_whole(self._log, reader, self._now_ms)
            if self._topic in (None, topic) and self._seen(topic)
        ]

    def _found(self, name: str) -> StoredGroup:
        found = self._group_named(storable(name))
        if found is None:
            raise UnknownGroup(name)
        return found

    def _group_named(self, name: str) -> StoredGroup | None:
        rows = self._tx.rows("operate", "groups_all", name=name)
        return group_of(rows[0]) if rows else None
