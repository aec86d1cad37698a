"""The command `python -m bench`: parse, run, print, exit code.

| exit code | meaning                                                   |
|-----------|-----------------------------------------------------------|
| 0         | every target was measured and kept                        |
| 1         | one was not kept, or something could not be measured      |
| 2         | the command line names something that is not there        |
"""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from bench.beside import Comparison, compare, tree_of
from bench.case import Case, Variant
from bench.catalogue import Catalogue, catalogue
from bench.errors import NotMeasured
from bench.home import HOME
from bench.machine import let_rest, look
from bench.meter import Meter, ProcessMeter
from bench.profiling import profile
from bench.progress import Ticker
from bench.publishing import CASES, FOLDER, before_after, publish, publish_comparison
from bench.report import console, print_case, print_comparison, print_machine, print_targets, result_path, write_json
from bench.result import Report, Settings
from bench.runner import Runner
from bench.words import one_line, plain


@dataclass(frozen=True, kw_only=True)
class Bench:
    """What the command works with; a test hands in its own as click's context object."""

    cases: Catalogue = field(default_factory=catalogue)
    meter: Meter = field(default_factory=ProcessMeter)
    home: Path = HOME
    pages: Path = FOLDER
    let_rest: Callable[[], None] = let_rest


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("names", metavar="[CASE]...", nargs=-1)
@click.option("--list", "listing", is_flag=True, help="Say which cases there are, and stop.")
@click.option("--full/--quick", default=None, help="Full or small sizes; quick is the default.")
@click.option("--rounds", type=click.IntRange(min=1), help="Rounds per case, after one warm-up.")
@click.option(
    "--json", "json_file", type=click.Path(dir_okay=False, path_type=Path), help="Write the numbers here too."
)
@click.option(
    "--only",
    "parts",
    metavar="PART[,PART]",
    multiple=True,
    help="Only variants with one of these between the commas of their names; repeat to narrow.",
)
@click.option(
    "--publish",
    "published",
    is_flag=True,
    help="Measure the cases of docs/benchmarks/, at full size unless --quick is given, and write its page.",
)
@click.option(
    "--beside",
    "revision",
    metavar="COMMIT",
    help="Measure the package of an earlier commit, too, by turns; with --publish, write the page on both.",
)
@click.option("--profile", "profiled", metavar="VARIANT", help="Run one variant once under cProfile.")
@click.pass_context
def main(
    context: click.Context,
    names: tuple[str, ...],
    listing: bool,
    full: bool | None,
    rounds: int | None,
    json_file: Path | None,
    parts: tuple[str, ...],
    published: bool,
    revision: str | None,
    profiled: str | None,
) -> None:
    """Measure the named cases, or all of them, and hold them against their targets."""
    bench = context.obj or Bench()
    if revision is not None:
        if profiled or listing:
            raise _usage("--beside measures: give no --profile and no --list with it")
        _compare(bench, names, parts, Settings(full=bool(full), rounds=rounds), revision, published, json_file)
        return
    if published and (names or parts or profiled):
        raise _usage(f"--publish measures {', '.join(CASES)}: name no case, no part and no variant with it")
    cases = _narrowed(_chosen(bench.cases, CASES if published else names), parts)
    full = published if full is None else full
    if json_file is not None and not json_file.absolute().parent.is_dir():
        raise _usage(f"--json: there is no folder {json_file.absolute().parent}")
    if listing:
        for case in cases:
            click.echo(f"{case.name:<{max(len(case.name) for case in cases)}}   {case.about}")
    elif profiled is not None:
        _profile(cases, profiled, full)
    else:
        report = _run(bench, cases, Settings(full=full, rounds=rounds), json_file)
        if published:
            for path in publish(report, bench.pages):
                click.echo(f"written: {path}", err=True)
        sys.exit(0 if report.holds else 1)


def _run(bench: Bench, cases: Sequence[Case], settings: Settings, json_file: Path | None) -> Report:
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
    return report


def _compare(
    bench: Bench,
    names: Sequence[str],
    parts: Sequence[str],
    settings: Settings,
    revision: str,
    published: bool,
    json_file: Path | None,
) -> None:
    """Measure with both packages, print both, and write the page if it is asked for."""
    named = names or (before_after.CASES if published else ())
    if not named:
        raise _usage("--beside: name the cases, or give --publish")
    usual = before_after.PARTS if published and not parts else {}
    cases = [
        narrowed
        for case in _chosen(bench.cases, named)
        for narrowed in _narrowed([case], parts or usual.get(case.name, ()))
    ]
    out, written = console(), list[Path]()
    print_machine(out, look(), "full" if settings.full else "quick")
    found = Comparison(cases=[])
    try:
        earlier = tree_of(revision, home=bench.home)
        for case in cases:  # one by one: a run that is cut short keeps what it has measured
            if published:
                bench.let_rest()
            done = compare(case, settings, earlier)
            found = found.renewed_by(done)
            print_comparison(out, done.cases[0], before_after.measures_of_case(done.cases[0]))
            if published:
                written = publish_comparison(done, bench.pages)
    except NotMeasured as exc:
        raise click.ClickException(one_line(f"--beside {revision}: {exc}")) from exc
    print_targets(out, [target for case in found.cases for target in case.after.targets])
    if json_file is not None:
        json_file.write_bytes(found.encode())
    for path in written:
        click.echo(f"written: {path}", err=True)
    sys.exit(0 if all(target.passed for case in found.cases for target in case.after.targets) else 1)


def _chosen(found: Catalogue, names: Sequence[str]) -> list[Case]:
    for name in names:
        if name not in found:
            raise _usage(f"there is no case {name!r}; there are: {', '.join(sorted(found))}")
    return [found[name]() for name in dict.fromkeys(names or found)]


def _narrowed(cases: Sequence[Case], parts: Sequence[str]) -> list[Case]:
    if not parts:
        return list(cases)
    wanted = [[part.strip() for part in group.split(",")] for group in parts]
    kept = [case for case in (each.only(wanted) for each in cases) if case.variants]
    if not kept:
        names = [variant.name for case in cases for variant in case.variants]
        there_are = ", ".join(dict.fromkeys(part for name in names for part in name.split(", ")))
        raise _usage(f"--only: no variant has {' and '.join(parts)}; the parts there are: {there_are}")
    return kept


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
