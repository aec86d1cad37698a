"""Events at a rate, one per transaction, on PostgreSQL: Penstock beside PgQueuer and procrastinate.

Publisher and worker are processes of their own; the publisher keeps to a schedule whatever happens, on one
connection up to 100/s, on 4 at 1000/s and on 8 above. Handlers read the number of the event and note the
moment. Penstock keeps the order of each key and fences every write; the others do neither. CPU is that of the
time in which events flow and the rest until all is handled and settled, divided by the events handled;
`postgres_cpu_us` is the whole server, publishing included, backends that came and went as well.
"""

from bench import Case, Paired, Size, Target, Variant
from bench.rates import RATES, Contender, ContenderOpener, flow, flowing, penstock_on, rival_on_postgres
from bench.rivals import PGQUEUER, PROCRASTINATE
from bench.stores import postgres

_JUDGED = {10, 100, 1000}
_REACHED = 0.95  # of the rate: a queue whose publisher cannot keep up has less to do
_OURS, _PGQUEUER, _PROCRASTINATE = "Penstock", "PgQueuer", "procrastinate"
_WORK = "worker_cpu_us + postgres_cpu_us"
_OPENERS: dict[str, ContenderOpener] = {
    _OURS: penstock_on(postgres),
    _PGQUEUER: rival_on_postgres(PGQUEUER, "pgqueuer_flow.py"),
    _PROCRASTINATE: rival_on_postgres(PROCRASTINATE, "procrastinate_flow.py"),
}
_PEERS = {_PGQUEUER: PGQUEUER, _PROCRASTINATE: PROCRASTINATE}


def _variants() -> list[Variant[Contender]]:
    return [
        Variant(f"{who}, {rate.name}", flow(rate), setup=flowing(opener), peer=_PEERS.get(who))
        for rate in RATES
        for who, opener in _OPENERS.items()
    ]


_LATE = {
    "10/s": "half of it is the move, 1.4 ms with its wait for the disk; the bell and its NOTIFY come before",
    "100/s": "the bell's look and its NOTIFY come before the move, whose commit waits for the disk",
    "1000/s": "one move at a time, 1.6 ms for 3.6 events, begun every 3.5 ms; half of that comes before it",
}
_DEAR = "a move is a transaction of its own, for few events where few come"


def _targets(rate: str, per_second: float) -> list[Target]:
    reached = ("published_per_second", per_second * _REACHED)
    ours, pgqueuer, procrastinate = (f"{who}, {rate}" for who in (_OURS, _PGQUEUER, _PROCRASTINATE))
    word = rate.replace("/s", "")
    return [
        *(
            Target(
                f"{part}_{word}",
                Paired(ours, (pgqueuer, procrastinate), f"latency_{part}_ms", reached),
                at_most=1.0,
                cause=_LATE.get(rate),
            )
            for part in ("p50", "p90")
        ),
        Target(f"cpu_{word}", Paired(ours, (pgqueuer,), _WORK, reached), at_most=0.7, cause=_DEAR),
    ]


CASE = Case(
    name="rates",
    about="commit to handler and cost per event by rate, PostgreSQL, beside PgQueuer and procrastinate",
    rounds=Size(quick=1, full=3),
    warm_up=False,
    variants=_variants(),
    targets=[target for rate in RATES if rate.per_second in _JUDGED for target in _targets(rate.name, rate.per_second)],
)
