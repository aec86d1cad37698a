"""All records of a key that a group has not settled: in lanes, dead, or still to be read from the log."""

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.delivery.lane import key_lane
from penstock.log.contract import OffsetRange, Position, Topic

from . import sentences as say
from .answer import counted
from .finder import Finder, Logged
from .record_case import CaseReader, Cursor, Lane, Letter, StoredGroup

_LISTED = 3  # lanes, and dead letters, described one by one; the rest is counted


@dataclass(frozen=True, slots=True)
class UnsettledRecords:
    """The records of a key that a group has not settled. `first`: the one the group has to settle first."""

    first: Logged | None
    key: str
    place: str
    lanes: tuple[Lane, ...]
    letters: tuple[Letter, ...]
    unread: tuple[Logged, ...]
    is_stray: bool = False  # in a partition where a client put the key

    @property
    def count(self) -> int:
        """The number of these records."""
        return sum(each.records for each in self.lanes) + len(self.letters) + len(self.unread)

    def others(self, group: StoredGroup, now_ms: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return sentences on the other records, and the commands for them."""
        first = -1 if self.first is None else self.first.offset
        texts = [*self._in_lanes(first, now_ms), *self._dead(first, now_ms), *self._unread(first)]
        letters = [each for each in self.letters if each.offset != first]
        return tuple(texts), (say.of_group("dead list", group, "--key", self.key),) if letters else ()

    def _in_lanes(self, first: int, now_ms: int) -> list[str]:
        texts = []
        for lane in self.lanes:
            behind = lane.records - (0 if lane.head is None or lane.held else 1)
            if lane.head is not None and lane.head != first and not lane.held:
                texts.append(f"its record {self.place}/{lane.head} {say.again(lane, now_ms, hindered=False)}")
            if behind > 0:
                more = counted(behind, "more record of the key waits", "more records of the key wait")
                texts.append(f"{more} behind it, up to {self.place}/{lane.last}")
        return [*texts[:_LISTED], *_rest(texts, "more of its records wait for a retry")]

    def _dead(self, first: int, now_ms: int) -> list[str]:
        others = [each for each in self.letters if each.offset != first]
        texts = [f"its record {self.place}/{each.offset} {say.died(each, now_ms)}" for each in others]
        return [*texts[:_LISTED], *_rest(texts, "more of its records are dead letters")]

    def _unread(self, first: int) -> list[str]:
        others = [each for each in self.unread if each.offset != first]
        if not others:
            return []
        more = counted(len(others), "more record of the key is", "more records of the key are")
        return [f"{more} still to be read from the log, up to {others[-1].place}"]


def unsettled(
    reader: CaseReader,
    finder: Finder,
    groups: Sequence[tuple[StoredGroup, Cursor]],
    topic: Topic,
    number: int,
    key: str,
) -> list[UnsettledRecords]:
    """Return, for each of these groups that read the partition, the unsettled records of a key."""
    own, walk, (_, end) = key_lane(key), finder.walk, finder.bounds(topic, number)
    reach = [OffsetRange(number, at.offset, min(end, at.offset + walk)) for _, at in groups]
    finder.look_ahead(topic, number, key, reach)
    found = []
    for (group, cursor), (_, low, high) in zip(groups, reach, strict=True):
        lanes = reader.lanes(group, topic, number, own)
        letters = reader.letters(group, topic, number, lane=own, key=key)
        logged = finder.of_key(topic, number, key, low, high)
        unread = [each for each in logged if each.offset not in cursor.done]
        found.append((_first(own, lanes, letters, unread), lanes, letters, unread))
    held = finder.at(topic, [Position(number, offset) for offset, *_ in found if offset is not None])
    place, result = f"{topic.name}/{number}", []
    for offset, lanes, letters, unread in found:
        first = None
        if offset is not None:
            ids = {each.offset: each.id for each in letters}
            kept = Logged(topic, number, offset, ids.get(offset, ""), key, "", 0)
            first = held.get(Position(number, offset), kept)
        result.append(UnsettledRecords(first, key, place, tuple(lanes), tuple(letters), tuple(unread)))
    return result


def _first(own: str, lanes: list[Lane], letters: list[Letter], unread: list[Logged]) -> int | None:
    """Return the offset of the record that a group has to settle first; None if it has settled them all."""
    heads = [each.head for each in lanes if each.id == own and not each.held and each.head is not None]
    if any(each.id == own and each.held for each in lanes):
        heads = [each.offset for each in letters if each.holding and each.lane == own]
    heads = heads or [each.offset for each in unread[:1]]
    heads = heads or [each.head for each in lanes if each.head is not None]
    heads = heads or [each.offset for each in letters[-1:]]
    return heads[0] if heads else None


def _rest(texts: list[str], what: str) -> list[str]:
    return [f"{len(texts) - _LISTED:,} {what}"] if len(texts) > _LISTED else []
