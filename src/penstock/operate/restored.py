"""Declares that a store was restored from a backup: its log becomes a new incarnation.

Workers that run during the restore notice it. A restore while no worker runs leaves no trace in the database:
new records get the offsets of the lost ones, and a pipeline would continue after them.
"""

from penstock.clock import SYSTEM, Clock, own_ms
from penstock.database.database import Transaction
from penstock.log.store import Store

from . import audit
from .operation import operation


@operation
def restored(store: Store, *, clock: Clock = SYSTEM, actor: str | None = None) -> int:
    """Raise the incarnation of the log and return it: pipelines that know the old one stop."""

    def change(tx: Transaction) -> int:
        log = store.log_in(tx)
        raised = log.raise_incarnation(log.identity().incarnation).incarnation
        for topic in log.topics():
            # If the log was restored and its readers were not, new records come after all they have passed.
            log.skip_to(topic, dict(tx.rows("operate", "cursors_highest", topic_id=topic.id)))
        audit.write(tx, "restored", {"incarnation": raised}, 1, own_ms(clock), actor=actor)
        return raised

    return store.database.run(change)
