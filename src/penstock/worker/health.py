"""The health of a worker, for the supervisor of its process."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from .calling.hung_calls import GivenUpGroup


@dataclass(frozen=True, slots=True)
class WorkerHealth:
    """The groups of a worker, and those that it does not serve because too many of their calls hang.

    `refusal`: why it has ended, if it can no longer use the tables. `workers`: how many run; 0 if none has
    been started, or all have ended. `lease_seconds`: how long its lease still runs without another heartbeat,
    below 0 once it has run out; None while it has not joined. `stopping`: it finishes its work and takes no
    more. `calls`: how many records of each group are with a handler.
    """

    groups: tuple[str, ...] = ()
    given_up: tuple[GivenUpGroup, ...] = ()
    refusal: str = ""
    workers: int = 0
    lease_seconds: float | None = None
    stopping: bool = False
    calls: Mapping[str, int] = field(default_factory=dict)

    @property
    def is_well(self) -> bool:
        """Whether it serves all its groups."""
        return not self.given_up and not self.refusal


def joined(found: Sequence[WorkerHealth]) -> WorkerHealth:
    """Return the health of several workers as one: the worst of each value."""
    leases = [each.lease_seconds for each in found]
    return WorkerHealth(
        groups=tuple(sorted({group for each in found for group in each.groups})),
        given_up=tuple(given_up for each in found for given_up in each.given_up),
        refusal=next((each.refusal for each in found if each.refusal), ""),
        workers=sum(each.workers for each in found),
        lease_seconds=None
        if None in leases
        else min((each for each in leases if each is not None), default=None),
        stopping=any(each.stopping for each in found),
        calls=sum((Counter(each.calls) for each in found), Counter[str]()),
    )
