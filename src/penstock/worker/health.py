"""How a worker is, for whoever watches its process."""

from dataclasses import dataclass

from .calling.hung_calls import GivenUpGroup


@dataclass(frozen=True, slots=True)
class WorkerHealth:
    """The groups of a worker, and those that it does not serve because too many of their calls hang."""

    groups: tuple[str, ...] = ()
    given_up: tuple[GivenUpGroup, ...] = ()

    @property
    def is_well(self) -> bool:
        """Whether it serves all its groups."""
        return not self.given_up
