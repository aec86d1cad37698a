"""The parts of Spark's checkpoint that a sink reads: a batch's range, the query's id, whether it is stateful.

| file               | holds                                                                          |
|--------------------|--------------------------------------------------------------------------------|
| `offsets/<batch>`  | a line with a version, one with settings, then one line of JSON for each source |
| `sources/<n>/<k>`  | of a source of files: the files that its offset k stands for                   |
| `commits/<batch>`  | not read: the file exists once the batch has ended                             |
| `metadata`         | the query's id                                                                 |
| `state/`           | the state of the query's operators; exists only for stateful queries           |

Spark writes `offsets/<batch>` before the batch runs and never changes it, so a batch that is run again
after a crash has the range it had.
"""

from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

import msgspec

from penstock.errors import InvalidOption

from .lake.paths import local_path
from .offsets import Range, by_topic, is_ours

_NOTHING = "-"  # a source that has given nothing yet
_HEADING_LINES = 2


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """One micro-batch. `ranges`: the new range of each source; None if a source is not Penstock's."""

    query_id: str
    number: int
    ranges: tuple[Range, ...] | None
    stateful: bool
    content: str = ""  # a hash of its input: the same when the batch is run again


def read_batch(checkpoint: str, number: int) -> MicroBatch:
    """Return a batch as the checkpoint describes it. Raises InvalidOption if it does not."""
    folder = local_path("checkpointLocation", checkpoint)
    try:
        query_id = msgspec.json.decode((folder / "metadata").read_bytes())["id"]
        lines = _sources(folder, number)
        before = _sources(folder, number - 1) if number else []
    except (OSError, msgspec.DecodeError, KeyError) as exc:
        wanted = f"the folder of the query's checkpoint, with its batch {number}"
        raise InvalidOption("checkpointLocation", checkpoint, wanted) from exc
    ranges: list[Range] = []
    foreign = False
    for place, line in enumerate(lines):
        if line == _NOTHING or (place < len(before) and line == before[place]):
            continue  # nothing new: Spark repeats the last offset
        form: Any = None
        with suppress(msgspec.DecodeError):  # the offset of another source may have any form
            form = msgspec.json.decode(line)
        if is_ours(form):
            ranges.extend(Range.from_json(each) for each in by_topic(form).values())
        else:
            foreign = True
    said = [line.encode() + _own_log(folder, place, line) for place, line in enumerate(lines)]
    content = blake2b(b"\n".join(said), digest_size=16).hexdigest()
    return MicroBatch(query_id, number, None if foreign else tuple(ranges), (folder / "state").is_dir(), content)


def begun_batch(checkpoint: str) -> int | None:
    """Return the number of the batch that began and did not end, if any: Spark will run it again."""
    begun, ended = (_last(local_path("checkpointLocation", checkpoint) / name) for name in ("offsets", "commits"))
    return begun if begun is not None and (ended is None or ended < begun) else None


def _last(folder: Path) -> int | None:
    with suppress(FileNotFoundError):
        return max((int(each.name) for each in folder.iterdir() if each.name.isdecimal()), default=None)
    return None


def _sources(folder: Path, number: int) -> list[str]:
    return (folder / "offsets" / str(number)).read_text("utf-8").splitlines()[_HEADING_LINES:]


def _own_log(folder: Path, place: int, line: str) -> bytes:
    """Return the list of files that a source of files keeps beside its offset, which is only a count."""
    with suppress(msgspec.DecodeError, TypeError, KeyError):
        number = msgspec.json.decode(line)["logOffset"]
        for name in (f"{number}", f"{number}.compact"):
            with suppress(FileNotFoundError):
                return (folder / "sources" / str(place) / name).read_bytes()
    return b""


def write_number(version: str | None) -> int:
    """Return the number that a write without a checkpoint gives itself, of 63 bits at most. Raises InvalidOption."""
    text = (version or "").strip()
    if not (text.isascii() and text.isdecimal()) or len(text) > 19 or int(text) >= 1 << 63:
        raise InvalidOption("txnVersion", version or "", "a number that grows with each write of the job")
    return int(text)
