"""The numbers of a page, drawn from a run: who did what at which rate, and how far the rounds lay apart."""

from dataclasses import dataclass
from statistics import median

from bench.publishing.chart import Point
from bench.result import CaseResult, VariantResult
from bench.words import number


@dataclass(frozen=True)
class Flow:
    """The variants of one case whose names are a contender and a rate."""

    case: CaseResult

    @property
    def contenders(self) -> list[str]:
        """Who is compared, in the order of the case."""
        return list(dict.fromkeys(name.split(", ")[0] for name in self._names()))

    @property
    def rates(self) -> list[str]:
        """At which rates, in the order of the case."""
        return list(dict.fromkeys(name.split(", ")[1] for name in self._names()))

    def point(self, contender: str, rate: str, measure: str) -> Point | None:
        """Return a measure of one of them; several, joined by " + ", are added up round by round."""
        return point(self._variant(contender, rate), measure)

    def label(self, contender: str, rate: str) -> str:
        """Return the name with a star when something was left undone, or with why it was not measured."""
        variant = self._variant(contender, rate)
        if variant.not_measured is not None:
            return f"{contender}: not measured: {variant.not_measured}"
        kept_up = all(measures.get("unhandled", 0) == 0 for measures in variant.rounds)
        return contender if kept_up else f"{contender} *"

    def _names(self) -> list[str]:
        return [variant.name for variant in self.case.variants]

    def _variant(self, contender: str, rate: str) -> VariantResult:
        return next(each for each in self.case.variants if each.name == f"{contender}, {rate}")


def point(variant: VariantResult, measure: str) -> Point | None:
    """Return a measure of a variant, or None when it was not measured."""
    parts = measure.split(" + ")
    column = [sum(one[part] for part in parts) for one in variant.rounds if set(parts) <= one.keys()]
    return Point(median(column), min(column), max(column)) if column else None


def shown(found: Point | None) -> str:
    """Return a point as a cell of a table: the median, and the spread if there is one."""
    if found is None:
        return "–"
    if found.low == found.high:
        return number(found.value)
    return f"{number(found.value)} ({number(found.low)}..{number(found.high)})"
