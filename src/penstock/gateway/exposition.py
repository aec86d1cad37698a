"""Series in the text format of Prometheus, version 0.0.4."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from math import inf, isinf, isnan

from penstock import metrics
from penstock.app import Outbox
from penstock.metrics import BOUNDS, Buckets, Labels, Series, SeriesKind
from penstock.worker.status import own_version

_TAKEN = (metrics.WORKERS, metrics.LEASE, metrics.RUNNING_CALLS)
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_IN_HELP = str.maketrans({"\\": r"\\", "\n": r"\n"})
_IN_LABEL = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})


def scrape(outboxes: Sequence[Outbox]) -> str:
    """Return all current series of the process. It asks no store: its cost does not grow with the backlog.

    Workers have already counted or measured most values. Values that change without an event are taken here:
    the lease, the workers, the records with a handler.
    """
    metrics.BUILD.set(1, version=own_version())
    taken: dict[tuple[Series, Labels], float] = {}
    for outbox in outboxes:
        health, store = outbox.health(), outbox.store.name
        taken[metrics.WORKERS, (store,)] = health.workers
        if health.lease_seconds is not None:
            taken[metrics.LEASE, (store,)] = health.lease_seconds
        for group in health.groups:
            taken[metrics.RUNNING_CALLS, (store, group)] = health.calls.get(group, 0)
    for (series, labels), value in taken.items():
        series.set(value, **dict(zip(series.labels, labels, strict=True)))
    stores = {each.store.name for each in outboxes}
    for series in _TAKEN:  # only now, so that a concurrent scrape misses none
        for labels in series.values():
            if labels[0] in stores and (series, labels) not in taken:
                series.forget(*labels)
    return exposition(metrics.SERIES)


def exposition(series: Iterable[Series]) -> str:
    """Return series with their current values."""
    return "".join(f"{line}\n" for each in series for line in _lines(each))


def _lines(series: Series) -> Iterator[str]:
    yield f"# HELP {series.name} {series.help.translate(_IN_HELP)}"
    yield f"# TYPE {series.name} {series.kind.value}"
    values = series.values()
    if not values and not series.labels and series.kind is not SeriesKind.GAUGE:
        values = {(): Buckets() if series.kind is SeriesKind.HISTOGRAM else 0}  # uncounted means 0
    for labels, value in sorted(values.items()):
        named = [f'{name}="{label.translate(_IN_LABEL)}"' for name, label in zip(series.labels, labels, strict=True)]
        if not isinstance(value, Buckets):
            yield f"{series.name}{_braced(named)} {_number(value)}"
            continue
        count = 0
        for bound, count in zip((*BOUNDS, inf), accumulate(value.counts), strict=True):
            within = _braced([*named, f'le="{_number(bound)}"'])
            yield f"{series.name}_bucket{within} {count}"
        yield f"{series.name}_sum{_braced(named)} {_number(value.total)}"
        yield f"{series.name}_count{_braced(named)} {count}"


def _braced(named: list[str]) -> str:
    return f"{{{','.join(named)}}}" if named else ""


def _number(value: float) -> str:
    if isnan(value):
        return "NaN"
    if isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return repr(value)
