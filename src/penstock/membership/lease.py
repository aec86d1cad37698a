"""The clocks by which a lease runs."""

from penstock.clock import Clock, host_ms, own_ms

from . import process


def lease_clocks(clock: Clock) -> dict[str, int | str | None]:
    """Return the arguments of a statement that checks whether leases still run.

    The time of day, and with it the database's clock, may be set while members work. Members of one host
    have a monotonic clock in common, and judge each other's leases by that clock.
    """
    return {"now_ms": own_ms(clock), "host": process.this_host(), "host_ms": host_ms(clock)}
