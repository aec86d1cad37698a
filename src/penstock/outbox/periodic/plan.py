"""The tick of a schedule to take now, and the one after it: the rule for missed ticks."""

from dataclasses import dataclass
from datetime import timedelta

from penstock.model.schedule import Definition, MissedTicks
from penstock.settings import Settings, setting


class PeriodicSettings(Settings, room="periodic"):
    """How often schedules are polled, and the treatment of missed ticks."""

    look_interval: timedelta = setting(
        timedelta(seconds=5), "Longest time between two polls of a worker's schedules.", at_least=0.01
    )
    grace: timedelta = setting(
        timedelta(seconds=60), 'With catch_up="none", a tick counts as missed after this time.', at_least=0
    )
    most_missed: int = setting(
        1000, 'With catch_up="all", most missed ticks to publish; older ones are skipped.', at_least=1
    )

    @property
    def grace_ms(self) -> int:
        """The grace in milliseconds."""
        return self.grace // timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True)
class TickPlan:
    """The tick to publish (None: nothing), and the next one.

    `skipped`: ticks in between or before are left out.
    """

    tick_ms: int | None
    next_ms: int
    skipped: bool


def plan(
    definition: Definition, *, next_ms: int, since_ms: int, now_ms: int, settings: PeriodicSettings
) -> TickPlan | None:
    """Return the plan for a schedule now; None if its next tick is still to come.

    `since_ms`: the time of its current definition, which has no earlier ticks except the one then due next.
    """
    if next_ms > now_ms:
        return None
    rule, catch_up = definition.rule, definition.catch_up
    most = settings.most_missed if catch_up is MissedTicks.ALL else 1
    due = rule.newest(max(next_ms, since_ms), now_ms, most)
    if len(due) < most:
        due.insert(0, next_ms)
    tick_ms = due[0]
    following_ms = rule.after(max(tick_ms, since_ms))
    if catch_up is MissedTicks.NONE and now_ms - tick_ms > settings.grace_ms:
        return TickPlan(None, following_ms, True)
    return TickPlan(tick_ms, following_ms, tick_ms != next_ms)


def next_after(definition: Definition, now_ms: int, last_ms: int | None) -> int:
    """Return the first tick after both now and the last tick taken."""
    return definition.rule.after(now_ms if last_ms is None else max(now_ms, last_ms))
