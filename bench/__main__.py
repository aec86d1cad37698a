"""The command `python -m bench`: parse, run, print, exit code.

| exit code | meaning                                                   |
|-----------|-----------------------------------------------------------|
| 0         | every target was measured and kept                        |
| 1         | one was not kept, or something could not be measured      |
| 2         | the command line names something that is not there        |
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from bench.case import Case, Variant
from bench.catalogue import Catalogue, catalogue
from bench.errors import NotMeasured
from bench.home import HOME
from bench.machine import look
from bench.meter import Meter, ProcessMeter
from bench.profiling import profile
from bench.progress import Ticker
from bench.report import console, print_case, print_machine, print_targets, result_path, write_json
from bench.result import Report, Settings
from bench.runner import Runner
from bench.words import one_line, plain


@dataclass(frozen=True, kw_only=True)
class Bench:
    """What the command works with; a test hands in its own as click's context object."""

    cases: Catalogue = field(default_factory=catalogue)
    meter: Meter = field(default_factory=ProcessMeter)
    home: Path = HOME


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("names", metavar="[CASE]...", nargs=-1)
@click.option("--list", "listing", is_flag=True, help="Say which cases there are, and stop.")
@click.option("--full/--quick", default=False, help="Full or small sizes; quick is the default.")
@click.option("--rounds", type=click.IntRange(min=1), help="Rounds per case, after one warm-up.")
@click.option(
    "--json", "json_file", type=click.Path(dir_okay=False, path_type=Path), help="Write the numbers here too."
)
@click.option("--profile", "profiled", metavar="VARIANT", help="Run one variant once under cProfile.")
@click.pass_context
def main(
    context: click.Context,
    names: tuple[str, ...],
    listing: bool,
    full: bool,
    rounds: int | None,
    json_file: Path | None,
    profiled: str | None,
) -> None:
    """Measure the named cases, or all of them, and hold them against their targets."""
    bench = context.obj or Bench()
    cases = _chosen(bench.cases, names)
    if json_file is not None and not json_file.absolute().parent.is_dir():
        raise _usage(f"--json: there is no folder {json_file.absolute().parent}")
    if listing:
        for case in cases:
            click.echo(f"{case.name:<{max(len(case.name) for case in cases)}}   {case.about}")
    elif profiled is not None:
        _profile(cases, profiled, full)
    else:
        sys.exit(_run(bench, cases, Settings(full=full, rounds=rounds), json_file))


def _run(bench: Bench, cases: Sequence[Case], settings: Settings, json_file: Path | None) -> int:
    out, machine = console(), look()
    print_machine(out, machine, "full" if settings.full else "quick")
    results, ticker = [], Ticker()
    runner = Runner(settings, bench.meter, ticker)
    for case in cases:
        with ticker:
            results.append(runner.run(case))
        print_case(out, results[-1])
    report = Report(machine=machine, settings=settings, cases=results)
    for path in filter(None, (result_path(bench.home, machine), json_file)):
        write_json(report, path)
    print_targets(out, [target for case in results for target in case.targets])
    return 0 if report.holds else 1


def _chosen(found: Catalogue, names: Sequence[str]) -> list[Case]:
    for name in names:
        if name not in found:
            raise _usage(f"there is no case {name!r}; there are: {', '.join(sorted(found))}")
    return [found[name]() for name in dict.fromkeys(names or found)]


def _profile(cases: Sequence[Case], wanted: str, full: bool) -> None:
    case, variant = _variant(cases, wanted)
    try:
        click.echo(profile(case, variant, full=full, say=lambda text: click.echo(text, err=True)), nl=False)
    except NotMeasured as exc:
        raise click.ClickException(one_line(f"not measured: {exc}")) from exc


def _variant(cases: Sequence[Case], wanted: str) -> tuple[Case, Variant[Any]]:
    every = [(case, variant) for case in cases for variant in case.variants]
    matching = [(case, variant) for case, variant in every if variant.name == wanted]
    if len(matching) == 1:
        return matching[0]
    if matching:
        owners = ", ".join(case.name for case, _ in matching)
        raise _usage(f"{wanted!r} is a variant of {owners}: name the case before --profile")
    there_are = ", ".join(repr(variant.name) for _, variant in every)
    raise _usage(f"there is no variant {wanted!r}; there are: {there_are}")


def _usage(text: str) -> click.UsageError:
    return click.UsageError(plain(text))


if __name__ == "__main__":
    main(prog_name="python -m bench")
