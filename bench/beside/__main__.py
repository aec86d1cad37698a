"""`python -m bench.beside ORDER`: a round of what `--beside` compares, which starts it."""

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import msgspec

from bench.beside.order import Order
from bench.case import Case
from bench.catalogue import catalogue
from bench.machine import look
from bench.meter import ProcessMeter
from bench.progress import Ticker
from bench.report import write_json
from bench.result import Report, Settings
from bench.runner import Runner


def main(text: str) -> None:
    """Measure and write the numbers."""
    order = msgspec.json.decode(text, type=Order)
    settings, machine = Settings(full=order.full, rounds=1), look()
    case = _wanted(catalogue()[order.case](), order.variants, peers=order.peers)
    result = Runner(settings, ProcessMeter(), Ticker()).run(case)
    write_json(Report(machine=machine, settings=settings, cases=[result]), Path(order.json_file))


def _wanted(case: Case, names: Sequence[str], *, peers: bool) -> Case:
    """Return a case with some variants and without targets: those are judged by the one who compares."""
    variants = [variant for variant in case.variants if variant.name in names and (peers or variant.peer is None)]
    return replace(case, variants=variants, targets=())


if __name__ == "__main__":
    main(sys.argv[1])
