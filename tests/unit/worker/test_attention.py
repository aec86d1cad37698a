"""What is said of a group while it is seen to is seen to afterwards: it may be newer than what was read."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from penstock.membership.serving import Domain
from penstock.worker.served_groups import RunningGroup, ServedGroups

HERE, ELSEWHERE = Domain(1, 1), Domain(2, 1)


class Looked:
    """A group's delivery that counts how often it is seen to, and may be told of more meanwhile."""

    def __init__(self, groups: ServedGroups) -> None:
        self._groups, self.looks = groups, 0
        self.meanwhile: list[Domain] = []
        self.fails = False
        self.partitions = SimpleNamespace(needs_check=False)
        self.topic = "events"
        self.subscription = SimpleNamespace(group="g", has_rate=False)

    def check(self) -> None:
        self.looks += 1
        if self.fails:
            raise OSError
        said, self.meanwhile = self.meanwhile, []
        self._groups.attend(said)

    def take_wanted(self, living: object) -> None: ...
    def untake(self, tasks: object) -> None: ...
    def release_idle(self) -> None: ...


def serving() -> tuple[ServedGroups, Looked]:
    cache: Any = SimpleNamespace(clear=lambda: None)
    ends: Any = SimpleNamespace(ring=lambda: None)
    runner: Any = SimpleNamespace(take_back=lambda which: [])
    member: Any = SimpleNamespace(living=None)
    lease: Any = SimpleNamespace(unseen=lambda: None)
    groups = ServedGroups(member, lease, runner, cache, ends)
    delivery: Any = Looked(groups)
    group = RunningGroup(delivery, None)
    groups._groups["g", "events"] = groups._domains[HERE] = group
    return groups, delivery


def test_what_is_said_twice_before_is_seen_to_once() -> None:
    groups, delivery = serving()
    groups.attend([HERE, ELSEWHERE, HERE])
    groups.exchange()
    assert delivery.looks == 1
    assert groups.is_calm()


def test_what_is_said_while_it_is_seen_to_is_seen_to_again() -> None:
    """The membership writes who should own a new partition just after the rows were read."""
    groups, delivery = serving()
    delivery.meanwhile = [HERE]
    groups.attend([HERE])
    groups.exchange()
    assert not groups.is_calm()
    groups.exchange()
    assert delivery.looks == 2
    assert groups.is_calm()


def test_what_fails_is_seen_to_again() -> None:
    groups, delivery = serving()
    delivery.fails = True
    groups.attend([HERE])
    for _ in range(2):
        try:
            groups.exchange()
        except OSError:
            delivery.fails = False
    assert delivery.looks == 2
    assert groups.is_calm()
