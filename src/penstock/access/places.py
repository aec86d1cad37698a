"""Places at a door: connections, streams, groups, bytes in hand. No client may hold them all.

| holder                                                       | may hold at most      | alone      |
|--------------------------------------------------------------|-----------------------|------------|
| a principal; anonymous or with a shared secret: its address  | 3 times the free rest | 3/4 of all |
| an address with all its principals; of IPv6 a /64            | 15 times the rest     | 15/16      |

The free rest shrinks as others take more: two greedy principals get three sevenths each, and a principal that
holds little finds room: the last place goes to one that has none. Behind a NAT an address is many people, so
it may hold more than each of them.

Connections whose client is not known yet have places of their own, a quarter as many again. When those are
taken, the oldest connection of the address that has most of them is closed: a client that authenticates
within milliseconds gets in beside any number of silent ones.

Bytes in memory at a door are places, too, over all its connections: of requests under way, and of answers not
taken yet. Requests of the largest size on all connections would exceed any machine's memory, as would answers
that clients ask for and never read. Bytes count from the first one, as they arrive and never as announced,
until a request is answered or a client has taken its answer. Without room a request of REST and gRPC is refused
with GatewayBusy (`admit`), the reading of a stream waits (`wait`), and of Kafka nothing is read
(`broker/flow_control.py`). An answer may use a fraction of the room that is left (`share`): clients that read
nothing shrink the share of the others, and never cut them off.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable
from functools import lru_cache
from ipaddress import IPv6Address, IPv6Network, ip_address
from threading import Lock
from typing import Generic, NamedTuple, TypeVar

from penstock.errors import GatewayBusy

from .principal import Principal

_TIMES_FREE_OF_NAME, _TIMES_FREE_OF_ADDRESS = 3, 15
_UNKNOWN_PART, _LEAST_UNKNOWN = 4, 8
_LEAST_ANSWER = 64 * 1024
_PARTS = 4  # an answer may use one such part of the room that is left

C = TypeVar("C")


@lru_cache(4096)
def network_of(address: str) -> str:
    """Return the network that counts as one address: the /64 of IPv6, or the (mapped) IPv4 address."""
    try:
        found = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(found, IPv6Address) and found.ipv4_mapped is None:
        return str(IPv6Network((int(found) >> 64 << 64, 64)))
    return str(getattr(found, "ipv4_mapped", None) or found)


class Holder(NamedTuple):
    """A holder of places: its name, or its address if it has none; and the address it asks from."""

    name: str
    address: str


def holder_of(principal: Principal) -> Holder:
    """Return the holder that a principal's places count for."""
    network = network_of(principal.address)
    is_everybody = principal.is_anonymous or principal.is_shared
    name = f"anybody {network}" if is_everybody else f"principal {principal.name}"
    return Holder(name, f"address {network}")


class SharedPlaces:
    """A number of places, or bytes, of one kind. In one thread, or under its owner's lock."""

    def __init__(self, most: int, *, least: int = 0) -> None:
        """`least`: one holder may always have this much, while there is room."""
        self.most, self.used, self._least = most, 0, least
        self._held: Counter[str] = Counter()

    def held(self, name: str) -> int:
        """Return how much one name holds."""
        return self._held[name]

    def has(self, holder: Holder | None, size: int = 1) -> bool:
        """Return whether a holder may have `size` more; None: only the whole counts."""
        free = self.most - self.used
        if holder is None:
            return size <= free
        of_name, of_address = self._held[holder.name], self._held[holder.address]
        return (
            size <= free
            and (not of_name or of_name + size <= max(self._least, _TIMES_FREE_OF_NAME * (free - size)))
            and of_address + size <= max(self._least, _TIMES_FREE_OF_ADDRESS * free)
        )

    def take(self, holder: Holder, size: int = 1) -> bool:
        """Take `size` more if there is room; return whether there was."""
        has_room = self.has(holder, size)
        if has_room:
            self.count(holder, size)
        return has_room

    def count(self, holder: Iterable[str] | None, change: int) -> None:
        """Change the count of a holder, whether there is room or not."""
        self.used += change
        for each in holder or ():
            self._held[each] += change
            if not self._held[each]:
                del self._held[each]

    def give_back(self, holder: Holder | None, size: int = 1) -> None:
        """Give `size` places back."""
        self.count(holder, -size)


class ConnectionPlaces(Generic[C]):
    """The connections of one door. In its event loop."""

    def __init__(self, most: int, end: Callable[[C], object]) -> None:
        """`end`: closes a connection at once."""
        self._known, self._end = SharedPlaces(most), end
        self.most = most
        self.most_unknown = max(_LEAST_UNKNOWN, most // _UNKNOWN_PART)
        self._holders: dict[C, Holder] = {}
        self._unknown: dict[C, str] = {}
        self._by_address: dict[str, dict[C, None]] = {}  # of unknown clients, the oldest first

    def __len__(self) -> int:
        return len(self._holders) + len(self._unknown)

    def enter(self, connection: C, address: str) -> bool:
        """Count a connection of an unknown client; return False if all places of known clients are taken."""
        if self._known.used >= self._known.most:
            return False
        if len(self._unknown) >= self.most_unknown:
            crowd: dict[C, None] = max(self._by_address.values(), key=len)
            oldest = next(iter(crowd))
            self.leave(oldest)
            self._end(oldest)
        network = network_of(address)
        self._unknown[connection] = network
        self._by_address.setdefault(network, {})[connection] = None
        return True

    def know(self, connection: C, principal: Principal) -> bool:
        """Set the principal of a connection; return False if it holds too many, so that it must end."""
        holder = holder_of(principal)
        if self._holders.get(connection) == holder:
            return True
        if connection not in self._holders and connection not in self._unknown:
            return False  # it was closed to make room
        self.leave(connection)
        if not self._known.take(holder):
            return False
        self._holders[connection] = holder
        return True

    def leave(self, connection: C) -> None:
        """Forget a connection."""
        if (holder := self._holders.pop(connection, None)) is not None:
            self._known.give_back(holder)
        if (network := self._unknown.pop(connection, None)) is not None:
            del self._by_address[network][connection]
            if not self._by_address[network]:
                del self._by_address[network]


class ByteBudget(SharedPlaces):
    """Bytes of one kind at one door. Safe from any thread, except `wait`: in the door's event loop."""

    def __init__(self, most: int, *, least: int = 0, busy: str = "it has {} bytes of requests in hand") -> None:
        """`least`: one holder may always have this much. `busy`: the reason of a refusal."""
        super().__init__(max(most, least), least=least)
        self._busy, self._lock, self._freed = busy, Lock(), asyncio.Event()

    @property
    def is_short(self) -> bool:
        """Whether more than half of the room is taken."""
        return self.used > self.most // 2

    def has(self, holder: Holder | None, size: int = 1) -> bool:
        """Return whether there is room; a single request or answer is taken however large it is."""
        return not self.used or super().has(holder, size)

    def count(self, holder: Iterable[str] | None, change: int) -> None:
        """Change the count of a holder, whether there is room or not."""
        with self._lock:
            super().count(holder, change)

    def admit(self, holder: Holder | None, size: int) -> None:
        """Count bytes. Raises GatewayBusy if there is no room for them."""
        with self._lock:
            if self.has(holder, size):
                super().count(holder, size)
                return
        raise self.refusal()

    async def wait(self, holder: Holder | None, size: int) -> None:
        """Count bytes once there is room for them."""
        while not self.has(holder, size):
            self._freed.clear()
            await self._freed.wait()
        self.count(holder, size)

    def give_back(self, holder: Holder | None, size: int = 1) -> None:
        """Give bytes back."""
        self.count(holder, -size)
        self._freed.set()

    def share(self, most: int) -> int:
        """Return how many bytes an answer may have, `most` at most."""
        return min(most, max(_LEAST_ANSWER, (self.most - self.used) // _PARTS))

    def refusal(self) -> GatewayBusy:
        """Return the error for a client that finds no room."""
        return GatewayBusy(f"{self._busy.format(self.used)}, of {self.most}")


class ByteShare:
    """The bytes that one request, answer or stream holds; the end of a `with` block gives them back."""

    __slots__ = ("_budget", "_size", "holder")

    def __init__(self, budget: ByteBudget, holder: Holder | None = None) -> None:
        self._budget, self._size, self.holder = budget, 0, holder

    def admit(self, size: int) -> None:
        """Count more bytes. Raises GatewayBusy if there is no room for them."""
        self._budget.admit(self.holder, size)
        self._size += size

    async def wait(self, size: int) -> None:
        """Count more bytes once there is room for them."""
        await self._budget.wait(self.holder, size)
        self._size += size

    def count(self, size: int) -> None:
        """Set how many bytes it holds, whether there is room or not."""
        self._budget.count(self.holder, size - self._size)
        self._size = size

    def give_back(self, size: int | None = None) -> None:
        """Give some bytes back, or all of them."""
        size = self._size if size is None else size
        self._size -= size
        self._budget.give_back(self.holder, size)

    def __enter__(self) -> "ByteShare":
        return self

    def __exit__(self, *_: object) -> None:
        if self._size:
            self.give_back()
