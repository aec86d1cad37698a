"""Looking into one variant with cProfile: once, without a meter."""

import cProfile
import io
import pstats
from collections.abc import Callable
from typing import Any

from bench.case import Case, Variant
from bench.run import Shared
from bench.words import plain

_LINES = 25


def profile(case: Case, variant: Variant[Any], *, full: bool, say: Callable[[str], None]) -> str:
    """Run a variant once and return where its time went, dearest first; this thread only."""
    if variant.peer is not None:
        variant.peer.ensure(say)
    profiler = cProfile.Profile()
    with Shared() as shared, variant.ready(case.run(variant, shared, full=full, round=1)) as body:
        profiler.runcall(body)
    text = io.StringIO()
    pstats.Stats(profiler, stream=text).sort_stats("cumulative").print_stats(_LINES)
    return plain(text.getvalue())
