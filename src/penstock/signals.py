"""Receiving SIGINT and SIGTERM without the dangers of a signal handler.

Python runs a signal handler in the main thread, between any two instructions, even while that thread holds
the lock of an Event. A handler that sets the same Event then deadlocks. So ours only puts the number into a
reentrant queue, and a separate thread does the rest.
"""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from threading import Thread, current_thread, main_thread
from types import FrameType
from typing import Any

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def hearing(hear: Callable[[signal.Signals], None], *, once: bool = False) -> Iterator[None]:
    """Call `hear` in a thread with each signal while the block lasts; then restore the former handlers.

    With `once`, the second signal of a kind has its default effect. Outside the main thread, where Python
    receives no signals, it does nothing.
    """
    if current_thread() is not main_thread():
        yield
        return

    heard: SimpleQueue[signal.Signals | None] = SimpleQueue()

    def note(number: int, frame: FrameType | None) -> None:
        heard.put(signal.Signals(number))
        if once:
            signal.signal(number, signal.SIG_DFL)

    def listen() -> None:
        while (number := heard.get()) is not None:
            hear(number)

    listener = Thread(target=listen, name="penstock-signals", daemon=True)
    listener.start()
    former: dict[signal.Signals, Any] = {each: signal.signal(each, note) for each in _SIGNALS}
    try:
        yield
    finally:
        for each, handler in former.items():
            signal.signal(each, handler)
        heard.put(None)
        listener.join()
