"""A set of positions in a topic, as bits: a million positions take 128 KB, in whatever order they come.

Not a Python set: ten million positions as objects take gigabytes. An isolated position costs one block.
"""

from collections.abc import Iterator

from penstock.errors import MissingExtra

from .offsets import Piece

try:
    import numpy as np
    import numpy.typing as npt
except ImportError as exc:
    raise MissingExtra("a pipeline", "spark") from exc

Numbers = npt.NDArray[np.int64]
PLACE = ("partition", "offset")  # the columns with the position of a row's record
_BLOCK = 1 << 16


class Places:
    """Partition and offset of rows. `rows` counts all added rows, `distinct` each position once."""

    def __init__(self) -> None:
        self.rows = self.distinct = 0
        self._blocks: dict[tuple[int, int], npt.NDArray[np.uint8]] = {}

    def add(self, partitions: Numbers, offsets: Numbers) -> None:
        """Add the positions of some rows."""
        self.rows += len(offsets)
        order = np.lexsort((offsets, partitions))
        partitions, offsets = partitions[order], offsets[order]
        numbers = offsets // _BLOCK
        breaks = np.flatnonzero((np.diff(partitions) != 0) | (np.diff(numbers) != 0)) + 1
        for group in np.split(np.arange(len(order)), breaks):
            if len(group):
                first = group[0]
                self._add(int(partitions[first]), int(numbers[first]), offsets[group] % _BLOCK)

    def _add(self, partition: int, number: int, within: Numbers) -> None:
        block = self._blocks.get((partition, number))
        bits = np.zeros(_BLOCK, np.uint8) if block is None else np.unpackbits(block)
        before = int(bits.sum())
        bits[within] = 1
        self.distinct += int(bits.sum()) - before
        self._blocks[partition, number] = np.packbits(bits)

    def has(self, partitions: Numbers, offsets: Numbers) -> npt.NDArray[np.bool_]:
        """Return which of some positions are in the set."""
        found = np.zeros(len(offsets), np.bool_)
        numbers = offsets // _BLOCK
        for partition, number in {*zip(partitions.tolist(), numbers.tolist(), strict=True)}:
            block = self._blocks.get((partition, number))
            if block is not None:
                here = np.flatnonzero((partitions == partition) & (numbers == number))
                found[here] = np.unpackbits(block)[offsets[here] % _BLOCK]
        return found

    def runs(self) -> Iterator[Piece]:
        """Yield the positions in order, as runs without gaps."""
        run: Piece | None = None
        for (partition, number), block in sorted(self._blocks.items(), key=lambda each: each[0]):
            for start, end in _runs(np.flatnonzero(np.unpackbits(block)) + number * _BLOCK):
                if run is not None and (run.partition, run.end) == (partition, start):
                    run = run._replace(end=end)
                    continue
                if run is not None:
                    yield run
                run = Piece(partition, start, end)
        if run is not None:
            yield run


def _runs(offsets: Numbers) -> Iterator[tuple[int, int]]:
    breaks = np.flatnonzero(np.diff(offsets) != 1) + 1
    for group in np.split(offsets, breaks):
        yield int(group[0]), int(group[-1]) + 1
