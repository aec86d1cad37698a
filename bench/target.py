"""Targets: a quantity drawn from the measures of one case, and the bound it has to keep.

Quantities are worked out from the medians over the rounds of one run. The spread beside them comes from the
rounds one by one: round k of one variant with round k of the other, which ran within the same moments.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Protocol

from bench.errors import NotMeasured
from bench.words import check_name

Rounds = Mapping[str, Sequence[Mapping[str, float]]]  # by variant, then by round: its measures

_UNITS = {"us": "us", "ms": "ms", "seconds": "s", "second": "/s", "percent": "%", "bytes": "bytes", "mb": "MB"}


@dataclass(frozen=True)
class Quantity:
    """A number with the spread of the rounds behind it."""

    value: float
    low: float
    high: float


class Formula(Protocol):
    """How a quantity is drawn from the rounds."""

    @property
    def measure(self) -> str:
        """The measure it looks at."""

    @property
    def variants(self) -> tuple[str, ...]:
        """The variants it needs."""

    @property
    def label(self) -> str:
        """What a target line says it is."""

    @property
    def unit(self) -> str:
        """The unit of the result, or nothing."""

    def work_out(self, rounds: Rounds) -> Quantity:
        """Return the quantity. Raises NotMeasured."""


@dataclass(frozen=True)
class Ratio:
    """One variant divided by another in the same measure."""

    over: str
    under: str
    measure: str
    unit: str = "x"

    @property
    def variants(self) -> tuple[str, ...]:
        """The variants it needs."""
        return (self.over, self.under)

    @property
    def label(self) -> str:
        """What a target line says it is."""
        return f"{self.over} / {self.under}"

    def work_out(self, rounds: Rounds) -> Quantity:
        """Return the ratio of the medians. Raises NotMeasured, also when the divisor is zero."""
        over, under = (_column(rounds, name, self.measure) for name in self.variants)
        if median(under) == 0:
            raise NotMeasured(f"{self.measure} of {self.under} is zero")
        pairs = [above / below for above, below in zip(over, under, strict=True) if below]
        return Quantity(median(over) / median(under), min(pairs), max(pairs))


@dataclass(frozen=True)
class Difference:
    """One variant minus another in the same measure."""

    more: str
    less: str
    measure: str

    @property
    def variants(self) -> tuple[str, ...]:
        """The variants it needs."""
        return (self.more, self.less)

    @property
    def label(self) -> str:
        """What a target line says it is."""
        return f"{self.more} - {self.less}"

    @property
    def unit(self) -> str:
        """The unit of the measure."""
        return unit_of(self.measure)

    def work_out(self, rounds: Rounds) -> Quantity:
        """Return the difference of the medians. Raises NotMeasured."""
        more, less = (_column(rounds, name, self.measure) for name in self.variants)
        pairs = [above - below for above, below in zip(more, less, strict=True)]
        return Quantity(median(more) - median(less), min(pairs), max(pairs))


@dataclass(frozen=True)
class Paired:
    """One variant divided by the best of others, round by round; the result is the median of the rounds.

    Round k of all of them ran within the same moments, so that a busy minute is in both parts of a ratio.
    With `floor`, a measure and its least value, who is below it in a round is left out of that round.
    """

    over: str
    under: tuple[str, ...]
    measure: str
    floor: tuple[str, float] | None = None
    unit: str = "x"

    @property
    def variants(self) -> tuple[str, ...]:
        """The variants it needs."""
        return (self.over, *self.under)

    @property
    def label(self) -> str:
        """What a target line says it is."""
        return f"{self.over} / {' or '.join(self.under)}"

    def work_out(self, rounds: Rounds) -> Quantity:
        """Return the median ratio. Raises NotMeasured, also when a divisor is not above zero."""
        over, *others = (self._comparable(rounds, name) for name in self.variants)
        pairs = []
        for above, *beside in zip(over, *others, strict=True):
            below = [value for value in beside if value is not None]
            if above is not None and below:
                if min(below) <= 0:
                    raise NotMeasured(f"{self.measure} of {' or '.join(self.under)} is not above zero")
                pairs.append(above / min(below))
        if not pairs and self.floor is not None:
            raise NotMeasured(f"in no round had {self.label} both {self.floor[0]} of at least {self.floor[1]:g}")
        return Quantity(median(pairs), min(pairs), max(pairs))

    def _comparable(self, rounds: Rounds, variant: str) -> list[float | None]:
        """Return the measure of each round, or None where the variant was below the floor."""
        column = _column(rounds, variant, self.measure)
        if self.floor is None:
            return list(column)
        measure, least = self.floor
        reached = _column(rounds, variant, measure)
        return [value if at >= least else None for value, at in zip(column, reached, strict=True)]


@dataclass(frozen=True)
class Value:
    """A measure of one variant as it is."""

    variant: str
    measure: str

    @property
    def variants(self) -> tuple[str, ...]:
        """The variant it needs."""
        return (self.variant,)

    @property
    def label(self) -> str:
        """What a target line says it is."""
        return self.variant

    @property
    def unit(self) -> str:
        """The unit of the measure."""
        return unit_of(self.measure)

    def work_out(self, rounds: Rounds) -> Quantity:
        """Return the median. Raises NotMeasured."""
        column = _column(rounds, self.variant, self.measure)
        return Quantity(median(column), min(column), max(column))


@dataclass(frozen=True)
class Target:
    """A bound on a quantity: exactly one of `at_most` and `at_least`.

    A bound that is known not to be kept says why in `cause`, which is printed below the line while it is so.
    """

    name: str
    of: Formula
    at_most: float | None = None
    at_least: float | None = None
    cause: str | None = None

    def __post_init__(self) -> None:
        check_name(self.name)
        if self.cause is not None:
            check_name(self.cause)
        if (self.at_most is None) == (self.at_least is None):
            raise ValueError(f"target {self.name} needs either at_most or at_least")

    @property
    def bound(self) -> str:
        """The bound in words."""
        words, limit = ("at most", self.at_most) if self.at_least is None else ("at least", self.at_least)
        return f"{words} {limit:g} {self.of.unit}".rstrip()

    def keeps(self, value: float) -> bool:
        """Return whether a value is within the bound; the bound itself is."""
        if self.at_most is not None:
            return value <= self.at_most
        return self.at_least is not None and value >= self.at_least


def unit_of(measure: str) -> str:
    """Return the unit that the last word of a measure's name stands for, or nothing."""
    return _UNITS.get(measure.rpartition("_")[2], "")


def _column(rounds: Rounds, variant: str, measure: str) -> list[float]:
    parts = measure.split(" + ")  # a measure may be a sum of others
    column = [sum(one[part] for part in parts) for one in rounds.get(variant, ()) if set(parts) <= one.keys()]
    if not column or len(column) != len(rounds[variant]):
        raise NotMeasured(f"{variant} gave no {measure} in every round")
    return column
