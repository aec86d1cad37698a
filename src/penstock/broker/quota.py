"""A limit of bytes per second for each client id; above it clients are throttled, and not read."""

from penstock.clock import Clock

_WINDOW_SECONDS = 1.0
_MOST_CLIENTS = 10_000
_LONGEST_MS = 30_000


class Quota:
    """One rate for every client id; each has a debt, which the rate pays off. One thread."""

    def __init__(self, bytes_per_second: int, clock: Clock) -> None:
        """`bytes_per_second`: 0 for no limit."""
        self._rate, self._clock = bytes_per_second, clock
        self._debts: dict[str, tuple[float, float]] = {}  # bytes owed, and the time of that

    def charge(self, client_id: str, size: int) -> int:
        """Charge bytes to a client; return how many milliseconds it has to wait."""
        if not self._rate:
            return 0
        now = self._clock.monotonic()
        owed, since = self._debts.get(client_id, (0.0, now))
        owed = max(0.0, owed - (now - since) * self._rate) + size
        if len(self._debts) >= _MOST_CLIENTS and client_id not in self._debts:
            self._debts.clear()
        self._debts[client_id] = owed, now
        above = owed - self._rate * _WINDOW_SECONDS
        return min(int(above / self._rate * 1000), _LONGEST_MS) if above > 0 else 0
