"""Histories of one partition of a log in files on a simulated disk, and what must hold in all of them.

| what is known    | must hold                                                                            |
|------------------|--------------------------------------------------------------------------------------|
| acknowledged     | it is there after every crash, at its offset (where the log is set so), unless trimmed |
| seen by a reader | its offset never holds anything else                                                 |
| sent             | nothing else is ever read; no value stands at two offsets                            |
| refused          | it does not come back once something else was acknowledged, or a crash has lost it   |
"""

import random
from collections.abc import Sequence
from pathlib import Path
from threading import Event
from uuid import UUID

from penstock.errors import Error
from penstock.log.batches import WriteResult
from penstock.log.entry import Content
from penstock.log.files import rewriting
from penstock.log.files.folder import PartitionFolder
from penstock.log.files.heads import HeadsFile
from penstock.log.files.open_files import OpenFiles
from penstock.log.files.partition import PartitionLog
from penstock.log.files.settings import FilesSettings
from penstock.log.files.writer import LogWriter, PartitionWrite
from penstock.log.kafka_form import encode_contents
from penstock.testing import FakeClock
from penstock.wire.kafka.record_batch import read_header
from tests.property.simulated_disk import SimulatedDisk

TOPIC = UUID(int=1)
STEPS = (
    *("append", "append", "append", "append many", "crash", "crash", "restart"),
    *("cut short", "cut short", "refuse", "fail a sync", "fill", "free", "trim", "erase", "roll", "wait"),
)


class Violation(AssertionError):
    """Something that must hold does not."""


class History:
    """One partition, driven step by step."""

    def __init__(self, seed: int, durability: str = "fsync") -> None:
        self.source = random.Random(seed)
        self.disk = SimulatedDisk(self.source)
        self.disk.make_folder(Path("/data/topics"))
        self.disk.sync_folder(Path("/data"))
        self.disk.sync_folder(Path("/"))
        self.settings = FilesSettings(
            durability=durability, segment_bytes=4096, index_bytes=300, segment_seconds=100.0, interval_seconds=5.0
        )
        self.clock = FakeClock()
        self.is_strict = durability == "fsync"
        self.values = self.at_once = 0
        self.sent: set[bytes] = set()
        self.acknowledged: dict[int, bytes] = {}
        self.seen: dict[int, bytes] = {}
        self.erased: set[int] = set()
        self.start = 0  # what the tables of a real log say
        self.refused: set[bytes] = set()
        self.void: set[bytes] = set()
        self.notes: list[str] = []
        self._open()

    def _open(self) -> None:
        self.files = OpenFiles(self.disk, 16)
        folder = Path("/data/topics") / str(TOPIC)
        self.heads = HeadsFile(self.disk, folder)
        self.partition = PartitionLog(
            self.files, PartitionFolder(folder / "0", TOPIC, 0), self.heads, self.settings, self.clock, 1
        )
        self.partition.recover(self.start)
        self.writer = LogWriter(self.settings, self.clock, lambda _: None)

    # -- steps

    def run(self, steps: Sequence[str]) -> None:
        """Take the steps, and look at everything after each."""
        try:
            for step in steps:
                self.notes.append(step)
                failed = self.disk.failed_syncs
                getattr(self, "_" + step.replace(" ", "_"))()
                if self.disk.failed_syncs > failed and not self.is_strict:  # what came early is lost with it
                    kept = {at: value for at, value in self.acknowledged.items() if at < self.partition.end}
                    self.acknowledged = kept
                self.look()
            self._crash()
            self.look()
        finally:
            self.disk.is_dead = True
            self.writer.stop()

    def _append(self, batches: int = 1) -> None:
        writes = []
        for _ in range(batches):
            values = [b"%06d" % (self.values + n) for n in range(self.source.randint(1, 2))]
            self.values += len(values)
            self.sent |= set(values)
            padding = b"." * self.source.choice((0, 0, 400, 900))  # few sizes: one fits where another was
            contents = [Content(each.decode(), b"k", "t", each + padding, None, int(each), "owner") for each in values]
            batch = encode_contents(contents)
            writes.append((values, PartitionWrite(self.partition, batch, [(0, read_header(batch))])))
        results = self._written([write for _, write in writes])
        if any(written.error is None for written in results):
            self.void |= self.refused  # what was refused before is not to come back
            self.refused = set()
        for (values, _), written in zip(writes, results, strict=True):
            if written.error is not None:
                self.refused |= set(values)
                continue
            for number, value in enumerate(values):
                self._acknowledge(written.base_offset + number, value)

    def _written(self, writes: Sequence[PartitionWrite]) -> list[WriteResult]:
        """Write, in this thread if there is one write and it may be done there."""
        if len(writes) == 1:
            (_, header), batch = writes[0].headers[0], memoryview(writes[0].batches)
            written = self.writer.append_one(self.partition, batch, header)
            if written is not None:
                self.at_once += 1
                return [written]
        done, results = Event(), list[WriteResult]()

        def told(found: Sequence[WriteResult]) -> None:
            results.extend(found)
            done.set()

        self.writer.append(writes, told)
        assert done.wait(30)
        return results

    def _acknowledge(self, offset: int, value: bytes) -> None:
        if self.seen.get(offset, value) != value or self.acknowledged.get(offset, value) != value:
            raise Violation(f"offset {offset} was given twice")
        self.acknowledged[offset] = value

    def _append_many(self) -> None:
        self._append(self.source.randint(2, 6))

    def _cut_short(self) -> None:
        """Let the power go somewhere within an append."""
        self.disk.dies_in = self.source.randint(1, 6)
        self._append_many()
        self._crash()

    def _refuse(self) -> None:
        """Let the disk refuse an append, and be asked again."""
        self.disk.failing_syncs = 1
        self._append_many()
        self._wait()

    def _crash(self) -> None:
        self.disk = self.disk.crash()
        self.writer.stop()
        if not self.is_strict:
            self._forget_unsynced()
        self._open()
        self._give_up()

    def _give_up(self) -> None:
        """What is not there after a start is not to come back."""
        if self.partition.refusal is not None:  # it could not be made sure of: what is there may count later
            return
        found = {(each.value or b"").rstrip(b".") for each in self.partition.entries(0, 1 << 60)}
        self.void |= self.sent - found
        self.refused = set()

    def _forget_unsynced(self) -> None:
        """Acknowledged before the disk had it: it may be lost, but only from some offset on."""
        self.in_doubt, self.acknowledged = self.acknowledged, {}

    def _restart(self) -> None:
        try:
            self.writer.stop()
            self.partition.close()
            self.heads.close()
        except OSError:
            pass
        self._open()
        self._give_up()

    def _fail_a_sync(self) -> None:
        self.disk.failing_syncs = 1

    def _fill(self) -> None:
        self.disk.room = self.source.choice((0, 100, 1500))

    def _free(self) -> None:
        self.disk.room = None
        self._wait()

    def _wait(self) -> None:
        from datetime import timedelta

        self.clock.advance(timedelta(seconds=self.source.choice((1, 10, 200))))

    def _roll(self) -> None:
        def roll() -> None:
            if self.partition.segments and self.partition.refusal is None and self.is_strict:
                try:
                    self.partition.roll()
                except OSError as exc:
                    self.partition.fail(exc)

        self.writer.call(roll)

    def _trim(self) -> None:
        start = self.source.randint(self.start, max(self.start, self.partition.end))
        self.start = max(self.start, start)

        def trim() -> None:
            try:
                self.partition.trim(self.start)
            except OSError as exc:
                self.partition.fail(exc)

        self.writer.call(trim)

    def _erase(self) -> None:
        held = [each for each in self.seen if self.partition.start <= each < self.partition.end]
        if not held or not self.is_strict or self.partition.refusal is not None:
            return
        offset = self.source.choice(held)

        def erase() -> int:
            try:
                return rewriting.erase(self.partition, {offset}, None)
            except OSError as exc:
                self.partition.fail(exc)
                return 0

        if self.writer.call(erase):
            self.erased.add(offset)
        else:
            self.maybe_erased = offset

    # -- what must hold

    def look(self) -> None:
        """Read everything and compare."""
        try:
            found = {each.offset: each for each in self.partition.entries(0, 1 << 60)}
        except Error as exc:
            raise Violation(f"what should be there is damaged: {exc}") from exc
        values = [each.value for each in found.values() if each.value is not None]
        if len(values) != len(set(values)):
            raise Violation("a record stands at two offsets")
        for offset, entry in found.items():
            if entry.value is None:
                if offset not in self.erased and offset != getattr(self, "maybe_erased", None):
                    raise Violation(f"offset {offset} lost its value")
                continue
            value = entry.value.rstrip(b".")
            if offset in self.erased:
                raise Violation(f"offset {offset} was erased, and has its value back")
            if value not in self.sent:
                raise Violation(f"nobody sent {value!r}")
            if value in self.void:
                raise Violation(f"{value!r} was refused or lost, and has come back")
            if self.seen.get(offset, value) != value:
                raise Violation(f"offset {offset} held {self.seen[offset]!r} and holds {value!r}")
            if offset in self.acknowledged and self.acknowledged[offset] != value:
                raise Violation(f"offset {offset} was acknowledged for another")
        for offset in self.acknowledged:
            if offset >= self.start and offset not in found:
                raise Violation(f"offset {offset} was acknowledged and is gone")
        if self.is_strict:
            for offset in self.seen:
                if offset >= self.start and offset not in found:
                    raise Violation(f"offset {offset} was seen and is gone")
        else:
            self._look_at_doubt(found.keys())
        self.seen |= {offset: each.value.rstrip(b".") for offset, each in found.items() if each.value is not None}
        if self.partition.next_offset < max((*self.seen, *self.acknowledged), default=-1) + 1:
            raise Violation("offsets that were seen would be given again")

    def _look_at_doubt(self, found: "Sequence[int] | object") -> None:
        """What was lost of what was acknowledged too early is a suffix of what was in the last segments."""
        doubt = getattr(self, "in_doubt", {})
        there = [each for each in sorted(doubt) if each >= self.start and each in found]  # type: ignore[operator]
        lost = [each for each in sorted(doubt) if each >= self.start and each not in found]  # type: ignore[operator]
        if there and lost and min(lost) < max(there):
            raise Violation(f"offset {min(lost)} is lost, and {max(there)} behind it is not")
        for each in there:
            self.acknowledged.setdefault(each, doubt[each])
        self.in_doubt = {}
