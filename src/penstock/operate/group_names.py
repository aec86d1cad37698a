"""Finds group names that two programs seem to share by mistake."""

from collections.abc import Mapping
from itertools import combinations

from penstock.clock import SYSTEM, Clock
from penstock.database.contract import Row
from penstock.database.database import Transaction
from penstock.log.store import Store
from penstock.membership.filters import Filter, have_nothing_in_common

from .doctor import DoctorFinding, PartState
from .members import filters
from .operation import operation

_MOST_GROUPS = 10_000


@operation
def examine_names(store: Store, clock: Clock = SYSTEM) -> list[DoctorFinding]:
    """Return a finding for each group whose living members have disjoint handlers."""

    def look(tx: Transaction) -> tuple[list[Row], dict[int, dict[str, Filter]]]:
        return tx.rows("operate", "group_list", after="", limit=_MOST_GROUPS), filters(tx, clock)

    rows, served = store.database.look(look)
    found = []
    for name, id, *_ in rows:
        apart = _apart(served.get(id, {}))
        if apart is not None:
            found.append(_finding(name, served[id], *apart))
    return found


def _apart(members: Mapping[str, Filter]) -> tuple[str, str] | None:
    """Return two members whose filters have nothing in common, if any."""
    pairs = combinations(members, 2)
    return next((each for each in pairs if have_nothing_in_common(members[each[0]], members[each[1]])), None)


def _finding(name: str, members: Mapping[str, Filter], one: str, other: str) -> DoctorFinding:
    return DoctorFinding(
        f"Group {name}",
        PartState.LOW,
        f"member {one[:8]} serves it for {', '.join(members[one])}, member {other[:8]} for "
        f"{', '.join(members[other])}: records that one of them handles are passed over while the other owns "
        "their partition",
        "every record for each of its handlers",
        "if these are two programs, give each its own group name",
    )
