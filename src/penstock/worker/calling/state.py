"""The parts that threads, event loop and watch share while handlers are called."""

from contextvars import Context
from dataclasses import dataclass

from penstock.clock import Clock

from .hung_calls import HungCalls
from .loop import AsyncLoop
from .permission import Permission
from .results import Results
from .thread_pool import ThreadPool
from .thread_queue import ThreadQueue
from .under_way import CallsUnderWay
from .verdicts import Verdicts


@dataclass(frozen=True, slots=True)
class RunnerState:
    """The parts of one runner that its threads, its loop and its watch share; each part owns its own state.

    `context`: the context in which the runner was made; every call runs in a copy of it.
    """

    clock: Clock
    context: Context
    permission: Permission
    hung: HungCalls
    under_way: CallsUnderWay
    results: Results
    verdicts: Verdicts
    queue: ThreadQueue
    pool: ThreadPool
    loop: AsyncLoop
