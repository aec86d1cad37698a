"""Checks whether the workers of a store hear its bell or have to poll."""

from penstock.backoff import PollingSettings
from penstock.database.address import without_password
from penstock.database.bell_listener import listen
from penstock.errors import BellUnheard, Error
from penstock.log.store import Store
from penstock.outbox.bell import BellSettings

from .doctor import DoctorFinding, PartState
from .operation import operation

_PART, _ENABLES = "Bell", "handlers that start within milliseconds of a commit"
_REMEDY = "set bell.listen_url (PENSTOCK_BELL_LISTEN_URL) to an address of the database itself"


@operation
def examine_bell(store: Store) -> DoctorFinding:
    """Listen as a worker does and return the finding; on a server, this sends one notification."""
    dialect = store.database.dialect
    if not BellSettings.load().enabled:
        return _polling(PartState.NOTE, "bell.enabled is off", "set bell.enabled")
    if not dialect.notifies:
        return DoctorFinding(_PART, PartState.OK, "listening: a file counts its writes", _ENABLES)
    where = f" at listen_url {without_password(dialect.listen_url)}" if dialect.listen_url else ""
    try:
        listen(store.database).close()
    except BellUnheard as exc:
        cause = "a pooler stands in between" if exc.pooled else "a notification did not come back"
        return _polling(PartState.LOW, cause + where, _REMEDY)
    except Exception as exc:
        known = exc if isinstance(exc, Error) else dialect.translate(exc)
        return _polling(PartState.LOW, f"{known or exc}{where}", "see that the server can be reached")
    return DoctorFinding(_PART, PartState.OK, "listening" + where, _ENABLES)


def _polling(state: PartState, cause: str, remedy: str) -> DoctorFinding:
    longest = PollingSettings.load().idle_seconds
    return DoctorFinding(
        _PART, state, f"polling, up to {longest:g} s late, because {cause}", _ENABLES, remedy
    )
