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
"""

from collections import Counter
from collections.abc import Callable, Iterable
from functools import lru_cache
from ipaddress import IPv6Address, IPv6Network, ip_address
from typing import Generic, NamedTuple, TypeVar

from .principal import Principal

_TIMES_FREE_OF_NAME, _TIMES_FREE_OF_ADDRESS = 3, 15
_UNKNOWN_PART, _LEAST_UNKNOWN = 4, 8

C = TypeVar("C")


@lru_cache(4096)
def network_of(address: str) -> str:
    """Return the network that counts as one address: the /64 of IPv6, or the (mapped) IPv4 address."""
    try:
        found = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if not isinstance(found, IPv6Address):
        return str(found)
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(IPv6Network((int(found) >> 64 << 64, 64)))


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
        if not self.has(holder, size):
            return False
        self.count(holder, size)
        return True

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
        holder = self._holders.pop(connection, None)
        if holder is not None:
            self._known.give_back(holder)
        network = self._unknown.pop(connection, None)
        if network is not None:
            of_address = self._by_address[network]
            del of_address[connection]
            if not of_address:
                del self._by_address[network]
