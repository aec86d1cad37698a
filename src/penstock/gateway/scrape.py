"""What a scrape gives: the series of the process. It asks no store: its cost does not grow with what waits.

Most values are there already, counted or measured by the workers. Those that change by themselves are taken
here: the lease, the workers, what is with a handler.
"""

from collections.abc import Sequence

from penstock import metrics
from penstock.app import Outbox
from penstock.worker.banner import own_version

from .exposition import exposition

_TAKEN = (metrics.WORKERS, metrics.LEASE, metrics.RUNNING_CALLS)


def scrape(outboxes: Sequence[Outbox]) -> str:
    """Return all series as they are now, in the text format."""
    metrics.BUILD.set(1, version=own_version())
    names = {each.store.name for each in outboxes}
    for series in _TAKEN:
        for labels in [each for each in series.values() if each[0] in names]:
            series.forget(*labels)
    for outbox in outboxes:
        health, store = outbox.health(), outbox.store.name
        metrics.WORKERS.set(health.workers, store=store)
        if health.lease_seconds is not None:
            metrics.LEASE.set(health.lease_seconds, store=store)
        for group in health.groups:
            metrics.RUNNING_CALLS.set(health.calls.get(group, 0), store=store, group=group)
    return exposition(metrics.SERIES)
