"""The inner doors of the package that the measurements use, as it has them now and as it had them earlier.

`--beside` measures the package of an earlier commit with the measurements of today. What that one names
otherwise stands here and nowhere else; what it lacks altogether is said to be not measured.
"""

import importlib
from typing import Any

from penstock import Outbox
from penstock.clock import SYSTEM
from penstock.database.database import Database
from penstock.database.naming import Names


def sequencer_of(database: Database) -> Any:
    """Return the sequencer of a database; earlier ones took it as it was, not as a store."""
    found: Any = importlib.import_module("penstock.outbox.sequencer")
    return found.Sequencer(_store("store_of", database), found.SequencerSettings(), SYSTEM)


def sequencing_service_of(url: str) -> Any:
    """Return the service that sequences a database."""
    try:
        found: Any = importlib.import_module("penstock.worker.mover")
    except ModuleNotFoundError:
        found = importlib.import_module("penstock.worker.sequencing")
        return found.SequencingService(_store("open_store", url), SYSTEM)
    return found.Mover(_store("open_store", url), SYSTEM)


def stage_statement() -> str:
    """Return the INSERT of an event on PostgreSQL; earlier ones kept a file for each statement."""
    try:
        found: Any = importlib.import_module("penstock.database.statements")
    except ModuleNotFoundError:
        earlier: Any = importlib.import_module("penstock.database.naming")
        return str(earlier.statement("penstock.outbox.sql.postgres", "stage", Names()))
    return str(found.statement("outbox", "postgres", "stage", Names()))


def worker_of(outbox: Outbox) -> Any:
    """Return what `outbox.run` runs, which would keep it to itself."""
    make: Any = outbox._worker
    try:
        return make(None, dedicated=True)
    except TypeError:  # earlier ones knew no process that does other work, too
        return make(None)


def _store(door: str, of: Any) -> Any:
    try:
        stores: Any = importlib.import_module("penstock.log.store")
    except ModuleNotFoundError:
        if door == "store_of":
            return of
        dialects: Any = importlib.import_module("penstock.database.dialects")
        return dialects.open_database(of, Names())
    return getattr(stores, door)(of)
