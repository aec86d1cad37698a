"""A scrape: the series of the process. It asks no store: its cost does not grow with the backlog.

Workers have already counted or measured most values. Values that change without an event are taken here: the
lease, the workers, the records with a handler.
"""

from collections.abc import Sequence

from penstock import metrics
from penstock.app import Outbox
from penstock.metrics import Labels, Series
from penstock.worker.status import own_version

from .exposition import exposition

_TAKEN = (metrics.WORKERS, metrics.LEASE, metrics.RUNNING_CALLS)


def scrape(outboxes: Sequence[Outbox]) -> str:
    """Return all current series in the text format."""
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
