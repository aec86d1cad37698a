"""What tables really hold of a topic, counted row by row: values that `reconcile` compares with the log.

The ends in a table's transactions say what it should hold; this looks at the rows. It knows partition and
offset by their columns, so it counts tables that have both, as those of a lake do. Rows pass by in batches.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from penstock.errors import MissingExtra

from .identity import Source
from .lake import Lake
from .offsets import Ends, Piece
from .places import PLACE, Places
from .storage import Location

try:
    import pyarrow as pa
    import pyarrow.compute as pc
except ImportError as exc:
    raise MissingExtra("a pipeline", "spark") from exc

_GATHERED_ROWS = 1 << 17


@dataclass(frozen=True, slots=True)
class Account:
    """The rows of a topic in some tables.

    `held`: runs of offsets that are there, without gaps or doubles; `rows` minus `distinct` are doubled.
    `ends`: how far all of the tables have come, by their own transactions. `strays`: rows of topics that do
    not feed the tables, or of none (the empty name).
    """

    rows: int
    distinct: int
    held: tuple[Piece, ...]
    ends: Ends
    strays: Mapping[str, int] = field(default_factory=dict)


def sources(path: Location) -> list[Source]:
    """Return the topics that feed a lake or a table."""
    return Lake(path).sources()


def account(path: Location, source: Source) -> Account:
    """Count what the tables of a lake hold of a topic; tables without partition and offset are left out.

    Raises TableDamaged.
    """
    lake = Lake(path)
    fed = lake.fed_by(source)
    topics = {each.topic for each in lake.sources()}
    places, strays = Places(), Counter[str]()
    gathered = list[pa.RecordBatch]()
    for table in fed:
        if table.has_columns(PLACE):
            named = table.has_columns(["topic"])
            for batch in table.batches([*PLACE, "topic"] if named else PLACE):
                gathered.append(_of_topic(batch, source.topic, topics, strays) if named else batch)
                if sum(each.num_rows for each in gathered) >= _GATHERED_ROWS:
                    _add(places, gathered, strays)
        _add(places, gathered, strays)
    return Account(places.rows, places.distinct, tuple(places.runs()), lake.ends(source), dict(strays))


def _of_topic(batch: pa.RecordBatch, topic: str, topics: set[str], strays: Counter[str]) -> pa.RecordBatch:
    """Return the rows of a topic, without its name; count those of topics that should not be there."""
    for each in pc.value_counts(batch.column("topic")).to_pylist():
        if each["values"] not in topics:
            strays[each["values"] or ""] += each["counts"]
    return batch.filter(pc.equal(batch.column("topic"), topic)).select(list(PLACE))


def _add(places: Places, gathered: list[pa.RecordBatch], strays: Counter[str]) -> None:
    """Add the rows gathered so far; one without a place is a stray."""
    for schema in {each.schema for each in gathered}:
        rows = pa.Table.from_batches([each for each in gathered if each.schema == schema])
        placed = rows.drop_null()
        if placed.num_rows < rows.num_rows:
            strays[""] += rows.num_rows - placed.num_rows
        columns = (placed.column(name).cast(pa.int64()).to_numpy() for name in PLACE)
        places.add(*columns)
    gathered.clear()
