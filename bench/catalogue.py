"""Finding the cases: each module of `bench/cases/` that is asked for, and its `CASE`."""

import importlib
import pkgutil
from collections.abc import Callable, Iterable, Mapping
from functools import partial

from bench import cases
from bench.case import Case

Catalogue = Mapping[str, Callable[[], Case]]  # by name; a case is imported when it is called for


def catalogue() -> Catalogue:
    """Return all cases there are, by name, none of them imported yet."""
    names = sorted(module.name for module in pkgutil.iter_modules(cases.__path__))
    return {name: partial(_load, name) for name in names}


def of(found: Iterable[Case]) -> Catalogue:
    """Return a catalogue of cases that are at hand."""
    at_hand = {case.name: case for case in found}
    return {name: partial(at_hand.__getitem__, name) for name in at_hand}


def _load(name: str) -> Case:
    case = importlib.import_module(f"{cases.__name__}.{name}").CASE
    if not isinstance(case, Case) or case.name != name:
        raise ValueError(f"bench/cases/{name}.py must declare CASE = Case(name={name!r}, ...)")
    return case
