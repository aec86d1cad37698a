"""A group's filter: the records its handlers want, and which member's filter counts while versions differ.

A member whose filter differs from the stored one gets no partitions of the group: it would move the
cursor past records that the other version has handlers for. So a rolling deploy skips nothing.

| text            | wants                                                        |
|-----------------|--------------------------------------------------------------|
| events:order.x  | this type on that topic                                      |
| events:order.*  | all types that begin with "order."                           |
| events:*        | all types                                                    |
| events:?a.b     | what a predicate decides; only its handler's name is known   |
"""

from collections.abc import Iterable, Sequence

Filter = tuple[str, ...]
REMEMBERED = 8


def filter_of(texts: Iterable[str]) -> Filter:
    """Return a filter in its canonical form: sorted, without texts that other texts include."""
    distinct = set(texts)
    return tuple(
        sorted(text for text in distinct if not any(other != text and _includes(other, text) for other in distinct))
    )


def covers(wide: Filter, narrow: Filter) -> bool:
    """Return whether one filter wants everything that the other wants."""
    return all(any(_includes(other, text) for other in wide) for text in narrow)


def wanted(filters: Sequence[Filter], topic: str, type: str) -> bool | None:
    """Return whether filters want a type of a topic; None where they differ, or where a predicate decides."""
    answers = {_wants(each, topic, type) for each in filters}
    return answers.pop() if len(answers) == 1 else None


def have_nothing_in_common(one: Filter, other: Filter) -> bool:
    """Return whether no record can match both; a predicate may match any record of its topic."""
    return not any(_may_meet(mine, theirs) for mine in one for theirs in other)


def succeed(stored: Sequence[Filter], living: Sequence[Filter]) -> list[Filter]:
    """Return the filters to store: the one that counts, then those that counted before.

    `living`: of the living members, as they joined. A filter that wants more than the stored one, or is new and wants
    something else, counts at once. One that wants less, or counted before (an old process started again), waits until
    no member has the stored one.
    """
    known = list(stored)
    while (following := _following(known, living)) is not None:
        known = [following, *(each for each in known if each != following)]
    # Keep the filter of every living member: otherwise two new versions would take turns forever.
    return [each for rank, each in enumerate(known) if rank < REMEMBERED or each in living]


def _following(known: Sequence[Filter], living: Sequence[Filter]) -> Filter | None:
    if not known:
        return living[0] if living else None
    present = known[0]
    for each in living:
        new = each not in known and not covers(present, each)
        if each != present and (new or covers(each, present)):
            return each
    return living[-1] if living and present not in living else None


def _wants(filter: Filter, topic: str, type: str) -> bool | None:
    if covers(filter, (f"{topic}:{type}",)):
        return True
    return None if any(text.startswith(f"{topic}:?") for text in filter) else False


def _may_meet(one: str, other: str) -> bool:
    (topic, _, match), (other_topic, _, other_match) = one.partition(":"), other.partition(":")
    if topic != other_topic:
        return False
    return "?" in (match[:1], other_match[:1]) or _includes(one, other) or _includes(other, one)


def _includes(wide: str, narrow: str) -> bool:
    topic, _, match = wide.partition(":")
    other_topic, _, other = narrow.partition(":")
    if topic != other_topic:
        return False
    if match == "*" or match == other:
        return True
    return match.endswith(".*") and other.startswith(match[:-1])
