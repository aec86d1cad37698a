"""A look for work that finds none, with 200,000 events waiting for tomorrow and without them."""

from bench import Case, Difference, Extra, Run, Target, Variant
from bench.stores import EVEN, EngineOpener, Load, Mover, filled, mover, postgres, sqlite

SCHEDULED = 200_000
TOMORROW = Load(scheduled=True)


def poll(run: Run, mover: Mover) -> Extra:
    """Look for work again and again."""
    for _ in range(run.records):
        assert mover.poll() == 0
    return None


def on(engine: EngineOpener, name: str) -> list[Variant[Mover]]:
    """Return the variants of one engine."""
    return [
        Variant(f"nothing waits, {name}", poll, setup=mover(filled(engine, EVEN, records=0))),
        Variant(f"200k scheduled, {name}", poll, setup=mover(filled(engine, TOMORROW, records=SCHEDULED))),
    ]


def target(name: str) -> Target:
    """Return what is asked of one engine: 2 ms more at most, in both directions of time."""
    more = Difference(f"200k scheduled, {name}", f"nothing waits, {name}", "wall_us")
    return Target(f"idle_poll_{name.lower()}", more, at_most=2000)


CASE = Case(
    name="scheduled",
    about="an idle poll, with and without many events for the future",
    records=500,
    variants=[*on(postgres, "PostgreSQL"), *on(sqlite, "SQLite")],
    targets=[target("PostgreSQL"), target("SQLite")],
)
