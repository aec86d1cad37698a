"""By which clocks a lease runs."""

from penstock.clock import Clock, host_ms, own_ms

from . import process


def lease_clocks(clock: Clock) -> dict[str, int | str | None]:
    """Return what a statement that asks whether leases run must be told.

    The time of day may be set while members work, and the database's clock with it. Members of one host have
    another clock in common, which only counts: by that they know of each other.
    """
    return {"now_ms": own_ms(clock), "host": process.this_host(), "host_ms": host_ms(clock)}
