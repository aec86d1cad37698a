"""`penstock worker`: run the handlers of one outbox or of several until it is stopped."""

import logging

import click

from penstock.app import Outbox, run_together

from .remedies import naming_the_command
from .target import load

_LEVELS = ("debug", "info", "warning", "error")


@click.command("worker")
@click.argument("targets", metavar="MODULE:OUTBOX...", nargs=-1, required=True)
@click.option("--partitions", metavar="A-B", help="Serve only these partitions: 0-63, or 0-63,128-191.")
@click.option(
    "--log-level", type=click.Choice(_LEVELS), default="info", show_default=True, help="How much to log."
)
def command(targets: tuple[str, ...], partitions: str | None, log_level: str) -> None:
    """Run the handlers of an outbox until it is stopped.

    MODULE:OUTBOX names the outbox in your code, such as shop:outbox; the current folder is searched too. Name
    several to serve several stores in one process. On SIGTERM or Ctrl-C it starts nothing more, waits for
    what runs, settles and leaves; a second signal does not wait. Start as many as you like, on any host: they
    share the work.
    """
    outboxes = {target: load(target, "shop:outbox") for target in targets}
    for target, outbox in outboxes.items():
        if not isinstance(outbox, Outbox):
            raise click.UsageError(f"{target} is {type(outbox).__name__}, not an Outbox")
    if len({id(each) for each in outboxes.values()}) < len(targets):
        raise click.UsageError(f"{' '.join(targets)} names an outbox twice")
    pins = None if partitions is None else _numbers(partitions)
    _tell(log_level)
    first: Outbox = next(iter(outboxes.values()))
    with naming_the_command(first.url, first.database.names):
        run_together(outboxes.values(), partitions=pins)


def _numbers(text: str) -> list[int]:
    """Return the numbers that ranges such as `0-63,128` name."""
    numbers: set[int] = set()
    for part in text.split(","):
        low, dash, high = part.strip().partition("-")
        if not low.isdecimal() or (dash and not high.isdecimal()) or (dash and int(high) < int(low)):
            raise click.BadParameter(f"{part!r} is not a range such as 0-63", param_hint="--partitions")
        numbers.update(range(int(low), int(high or low) + 1))
    return sorted(numbers)


def _tell(level: str) -> None:
    """Let Penstock's own loggers write to standard error; the program's other logging is left as it is."""
    logger = logging.getLogger("penstock")
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)-7s %(name)s %(message)s"))
    logger.addHandler(handler)
    logger.setLevel(level.upper())
