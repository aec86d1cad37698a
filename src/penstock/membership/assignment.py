"""The owner each row should have: fair, sticky, and with as few moves as fairness allows. No I/O, no clock.

A row is a slot or a partition, by its number. The members pinned to a row may hold it; when there are none,
the members without pins; when there are none of these either, no member. Members that may hold the same rows
get shares that differ by at most one row; where pins overlap only in part, shares are as even as the pins
allow. The same rows and members always give the same answer.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

Owners = dict[int, str | None]


@dataclass(frozen=True, slots=True)
class Participant:
    """A member that shares in some rows, and the rows it is pinned to; None: it has no pins."""

    id: str
    pins: frozenset[int] | None = None


def assign(rows: Mapping[int, str | None], members: Sequence[Participant]) -> Owners:
    """Return the owner each row should have, given the one it has (or should have had until now)."""
    classes: dict[tuple[str, ...], list[int]] = {}
    for row in sorted(rows):
        classes.setdefault(_holders(row, members), []).append(row)
    owners: Owners = {}
    for holders, alike in classes.items():
        owners |= _share({row: rows[row] for row in alike}, holders)
    if _overlap(classes):
        _even_out(owners, rows, {row: holders for holders, alike in classes.items() for row in alike})
    return owners


def may_hold(row: int, member: Participant, members: Sequence[Participant]) -> bool:
    """Return whether a member may be given a row, together with these members."""
    return member.id in _holders(row, [*members, member])


def _holders(row: int, members: Iterable[Participant]) -> tuple[str, ...]:
    pinned = sorted({each.id for each in members if each.pins is not None and row in each.pins})
    return tuple(pinned or sorted({each.id for each in members if each.pins is None}))


def _share(rows: Mapping[int, str | None], holders: Sequence[str]) -> Owners:
    """Share rows that all of the holders may hold: the holders with the most rows may keep an odd one."""
    if not holders:
        return dict.fromkeys(rows)
    held: dict[str, list[int]] = {holder: [] for holder in holders}
    spare = [row for row, owner in rows.items() if owner not in held]
    for row, owner in rows.items():
        if owner in held:
            held[owner].append(row)
    size, odd = divmod(len(rows), len(holders))
    ranked = sorted(holders, key=lambda holder: (-len(held[holder]), holder))
    sizes = {holder: size + (rank < odd) for rank, holder in enumerate(ranked)}
    for holder in ranked:
        spare += held[holder][sizes[holder] :]
        del held[holder][sizes[holder] :]
    for holder in ranked:
        missing = sizes[holder] - len(held[holder])
        held[holder] += spare[:missing]
        del spare[:missing]
    return {row: holder for holder, kept in held.items() for row in kept}


def _overlap(classes: Iterable[tuple[str, ...]]) -> bool:
    """Return whether some member may hold rows of two classes, so that one share affects the other."""
    named = [holder for holders in classes for holder in holders]
    return len(named) != len(set(named))


# Where pins overlap, solve a flow: rows move between members along cycles that lower the cost, until no such
# cycle is left; then the cost is minimal. The node None stands for a member's size: a cycle through it makes
# one member smaller and another larger. Evenness (the sum of squares) comes first, then the number of moves.
_Node = str | None
_Edge = tuple[int, int | None]  # its cost, and the row that moves along it


def _even_out(owners: Owners, before: Mapping[int, str | None], holders: Mapping[int, tuple[str, ...]]) -> None:
    while cycle := _cheaper(_edges(owners, before, holders)):
        for row, target in cycle:
            owners[row] = target


def _edges(
    owners: Owners, before: Mapping[int, str | None], holders: Mapping[int, tuple[str, ...]]
) -> dict[tuple[_Node, _Node], _Edge]:
    much = len(owners) + 1  # more than the cost of moving every row
    loads: dict[str, int] = {}
    edges: dict[tuple[_Node, _Node], _Edge] = {}
    for row, owner in owners.items():
        loads |= {holder: loads.get(holder, 0) + (holder == owner) for holder in holders[row]}
        for holder in holders[row]:
            cost = _moves(before[row], holder, holders[row]) - _moves(before[row], owner, holders[row])
            if holder != owner and cost < edges.get((owner, holder), (2, None))[0]:
                edges[owner, holder] = (cost, row)
    for member, load in loads.items():
        edges[member, None] = (much * (2 * load + 1), None)
        if load:
            edges[None, member] = (much * (1 - 2 * load), None)
    return edges


def _moves(before: str | None, owner: str | None, holders: tuple[str, ...]) -> int:
    return int(before in holders and before != owner)


def _cheaper(edges: Mapping[tuple[_Node, _Node], _Edge]) -> list[tuple[int, str]]:
    """Return the moves of a cycle whose cost is below zero, or nothing (Bellman and Ford)."""
    distance: dict[_Node, int] = {node: 0 for pair in edges for node in pair}
    came: dict[_Node, _Node] = {}
    last: list[_Node] = []
    for _ in distance:
        last = []
        for (source, target), (cost, _row) in edges.items():
            if distance[source] + cost < distance[target]:
                distance[target], came[target] = distance[source] + cost, source
                last = [target]
        if not last:
            return []
    cycle = list(_cycle_before(last[0], came))
    steps = [(edges[pair][1], pair[1]) for pair in cycle]
    return [(row, target) for row, target in steps if row is not None and target is not None]


def _cycle_before(node: _Node, came: Mapping[_Node, _Node]) -> Iterator[tuple[_Node, _Node]]:
    for _ in came:
        node = came[node]  # after this many steps back it is on the cycle
    first = node
    for _ in came:
        yield came[node], node
        node = came[node]
        if node == first:
            return
