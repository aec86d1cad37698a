"""`python -m bench.beside ORDER`: one of the two runs that `--beside` compares, and starts itself."""

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import msgspec

from bench.beside.order import Order
from bench.beside.turns import own_turns
from bench.case import Case, Variant
from bench.catalogue import catalogue
from bench.errors import NotMeasured
from bench.machine import look
from bench.meter import ProcessMeter
from bench.report import write_json
from bench.result import Report, Settings
from bench.run import Run
from bench.runner import Runner


def main(text: str) -> None:
    """Measure by turns and write the numbers."""
    order = msgspec.json.decode(text, type=Order)
    settings, machine, found = Settings(full=order.full, rounds=order.rounds), look(), catalogue()
    cases = [_wanted(found[name](), names, peers=order.peers) for name, names in order.cases]
    runner = Runner(settings, ProcessMeter(), own_turns(cases))
    results = [runner.run(case) for case in cases]
    write_json(Report(machine=machine, settings=settings, cases=results), Path(order.json_file))


def _wanted(case: Case, names: Sequence[str], *, peers: bool) -> Case:
    """Return a case without targets, which are judged by the one who compares.

    Peers that are not wanted keep their places, so that both runs have the same order.
    """
    variants = [
        variant if peers or variant.peer is None else Variant(variant.name, _elsewhere)
        for variant in case.variants
        if variant.name in names
    ]
    return replace(case, variants=variants, targets=())


def _elsewhere(run: Run) -> None:
    raise NotMeasured("it runs once, beside the present package")


if __name__ == "__main__":
    main(sys.argv[1])
