"""Events that flow at a rate: a publisher and a worker, each a process of its own, Penstock's or a rival's.

A case names contenders and rates. Each round of each begins on empty tables with new processes, warmed by
half a second of events that are not counted, and nobody else is there.
"""

from bench.rates.contenders import Contender, ContenderOpener, rival_on_postgres, rival_on_sqlite
from bench.rates.measuring import RATES, RATES_ON_A_FILE, Rate, flow, flowing
from bench.rates.penstock_processes import penstock_on

__all__ = [
    "RATES",
    "RATES_ON_A_FILE",
    "Contender",
    "ContenderOpener",
    "Rate",
    "flow",
    "flowing",
    "penstock_on",
    "rival_on_postgres",
    "rival_on_sqlite",
]
