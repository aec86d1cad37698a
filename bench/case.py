"""How a case is declared: its variants, how they are set up, and the targets they are held against.

A case file in `bench/cases/` has one `CASE`. It declares and does nothing at import; the runner does.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar, overload

from bench.peers import Peer
from bench.run import Run, Shared, Size, pick
from bench.target import Target
from bench.words import check_name

S = TypeVar("S")
Extra = Mapping[str, float] | None  # what a body returns: more measures, their unit in the name


class Variant(Generic[S]):
    """One way of doing the job, measured by itself.

    The body is measured; the setup is a context manager around it and is not. A body returns None or more
    measures (`{"wal_bytes_per_record": 812.0}`). It may return `records` to say how many it really did.
    A `peer` is installed before the first round.
    """

    @overload
    def __init__(
        self: "Variant[None]",
        name: str,
        body: Callable[[Run], Extra],
        *,
        records: int | Size | None = None,
        peer: Peer | None = None,
    ) -> None: ...

    @overload
    def __init__(
        self,
        name: str,
        body: Callable[[Run, S], Extra],
        *,
        setup: Callable[[Run], AbstractContextManager[S]],
        records: int | Size | None = None,
        peer: Peer | None = None,
    ) -> None: ...

    def __init__(
        self,
        name: str,
        body: Callable[..., Extra],
        *,
        setup: Callable[[Run], AbstractContextManager[S]] | None = None,
        records: int | Size | None = None,
        peer: Peer | None = None,
    ) -> None:
        self.name = check_name(name)
        self.records = records
        self.peer = peer
        self._body = body
        self._setup = setup

    @contextmanager
    def ready(self, run: Run) -> Iterator[Callable[[], Extra]]:
        """Set up, give the call that is to be measured, and clear away afterwards."""
        if self._setup is None:
            yield lambda: self._body(run)
        else:
            with self._setup(run) as thing:
                yield lambda: self._body(run, thing)


@dataclass(frozen=True, kw_only=True)
class Case:
    """Variants that do the same job, and the targets drawn from them.

    `name` is the name of its file. `records` counts for every variant that names no number of its own, and
    `rounds` replaces the harness' number for a case whose rounds are long. Without `warm_up` there is no
    round before the first: for variants that warm up in their setup.
    """

    name: str
    about: str
    variants: Sequence[Variant[Any]]
    targets: Sequence[Target] = ()
    records: int | Size = 1
    rounds: int | Size | None = None
    warm_up: bool = True

    def __post_init__(self) -> None:
        check_name(self.name)
        check_name(self.about)
        names = [variant.name for variant in self.variants]
        _refuse_twins("variant", self.name, names)
        _refuse_twins("target", self.name, [target.name for target in self.targets])
        for target in self.targets:
            for name in target.of.variants:
                if name not in names:
                    raise ValueError(f"target {self.name}.{target.name} names {name!r}, which is no variant of it")

    def only(self, wanted: Sequence[Sequence[str]]) -> "Case":
        """Return the case with those variants that have a part of each group, and the targets they allow.

        The parts of a name stand between commas: "Penstock, 100/s" has two.
        """
        kept = [
            variant
            for variant in self.variants
            if all(not set(group).isdisjoint(variant.name.split(", ")) for group in wanted)
        ]
        names = {variant.name for variant in kept}
        targets = [target for target in self.targets if names.issuperset(target.of.variants)]
        return replace(self, variants=kept, targets=targets)

    def run(self, variant: Variant[Any], shared: Shared, *, full: bool, round: int) -> Run:
        """Return what one execution of a variant is handed."""
        records = self.records if variant.records is None else variant.records
        return Run(full=full, records=pick(records, full), round=round, shared=shared)


def _refuse_twins(what: str, case: str, names: list[str]) -> None:
    twins = sorted({name for name in names if names.count(name) > 1})
    if twins:
        raise ValueError(f"case {case} has two {what}s with the name {twins[0]!r}")
