"""Following a pipeline: looks are often while batches come, and seldom at rest."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from threading import Event
from typing import Any

import pytest

from penstock.cli.pipeline_following import CourseEnd, PipelineCourse
from penstock.pipeline.progress import PipelineSeries, Progress


class Watch(Event):
    """The wish to stop, which nobody has; it keeps how long it was waited for, and does not wait."""

    def __init__(self) -> None:
        super().__init__()
        self.pauses: list[float] = []

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout is not None
        self.pauses.append(timeout)
        return self.is_set()


class Reader:
    """Nobody is told anything."""

    def moved(self, ends: Any) -> None: ...

    def tell(self, batch: Progress) -> None: ...

    def waiting(self, batch: Progress) -> int | None:
        return None


@dataclass
class Query:
    """A query that ends when its looks are used up; each look finds so many batches."""

    looks: Iterator[int]
    active: bool = True
    busy: bool = False
    told: list[int] = field(default_factory=list)

    def progress(self) -> list[Progress]:
        found = next(self.looks, None)
        self.active = found is not None
        self.told += range(found or 0)
        return [Progress(len(self.told), 1, 1.0, 0.1, 0)] * (found or 0)

    def check(self) -> None: ...


@pytest.fixture
def asked() -> Watch:
    return Watch()


def follow(asked: Watch, looks: list[int]) -> CourseEnd:
    query: Any = Query(iter(looks))
    reader: Any = Reader()
    return PipelineCourse(asked, PipelineSeries("store", "reader"), reader).run(lambda: query)


def test_a_pipeline_at_rest_is_looked_at_once_a_second_in_the_end(asked: Watch) -> None:
    follow(asked, [0] * 20)
    assert asked.pauses == sorted(asked.pauses)
    assert asked.pauses[0] < 0.3
    assert asked.pauses[10:] == [1.0] * len(asked.pauses[10:])


def test_a_batch_after_a_rest_makes_the_looks_frequent_again(asked: Watch) -> None:
    end = follow(asked, [0] * 20 + [1] + [0])
    assert (end.rows, end.batches) == (1, 1)
    assert asked.pauses[19:21] == [1.0, 0.2]
