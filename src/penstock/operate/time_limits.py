"""Checks whether the server's time limits are too short for handlers with `transaction=True`."""

from penstock.log.store import Store

from .doctor import DoctorFinding, PartState
from .operation import operation

SHORT_SECONDS = 60.0  # a limit below this ends calls that are not considered slow


@operation
def examine_time_limits(store: Store) -> list[DoctorFinding]:
    """Return a finding for each session limit that is short enough to end a handler's transaction."""
    dialect = store.database.dialect
    try:
        limits = dialect.time_limits()
    except Exception as exc:
        raise (dialect.translate(exc) or exc) from exc
    return [
        DoctorFinding(
            "Time limits",
            PartState.LOW,
            f"{setting} is {ms / 1000:g} s",
            "handlers with transaction=True that take longer than that",
            f"ALTER ROLE ... SET {setting} = '10min' for Penstock's role, or wait outside record.tx",
        )
        for setting, ms in sorted(limits.items())
        if ms < SHORT_SECONDS * 1000
    ]
