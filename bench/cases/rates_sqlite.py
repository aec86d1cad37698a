"""Events at a rate, one per transaction, on a SQLite file: Penstock beside honker and a bare poll loop.

As in `rates`: publisher and worker are processes of their own, the publisher keeps to its schedule, on one
connection (SQLite has one writer). The database works inside both processes, so its CPU is theirs, and
`publisher` and `worker` together are what an event costs. Nothing is judged here; `rates_in_process` is.
"""

from bench import Case, Peer, Size, Variant
from bench.rates import RATES_ON_A_FILE, ContenderOpener, flow, flowing, penstock_on, rival_on_sqlite
from bench.stores import sqlite

HONKER = Peer(name="honker", requirements=("honker==0.2.4",))
POLL = Peer(name="bare")

_OPENERS: dict[str, ContenderOpener] = {
    "Penstock": penstock_on(sqlite),
    "honker": rival_on_sqlite(HONKER, "honker_flow.py"),
    "poll every 10 ms": rival_on_sqlite(POLL, "poll_flow.py"),
}
_PEERS = {"honker": HONKER, "poll every 10 ms": POLL}

CASE = Case(
    name="rates_sqlite",
    about="commit to handler and cost per event by rate, SQLite, beside honker and a bare poll loop",
    rounds=Size(quick=1, full=3),
    warm_up=False,
    variants=[
        Variant(f"{who}, {rate.name}", flow(rate), setup=flowing(opener), peer=_PEERS.get(who))
        for rate in RATES_ON_A_FILE
        for who, opener in _OPENERS.items()
    ],
)
