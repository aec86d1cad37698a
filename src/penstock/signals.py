"""Receiving SIGINT and SIGTERM without the dangers of a signal handler.

Python runs a signal handler in the main thread, between any two instructions, even while that thread holds
the lock of an Event. A handler that sets the same Event then deadlocks. And while the main thread waits for a
lock, no handler runs if the system delivers the signal to another thread, or just before the wait begins. So
ours do nothing: a thread reads the numbers of the signals from the wake-up descriptor, which Python writes in
whichever thread the signal arrives.
"""

import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Thread, current_thread, main_thread
from types import FrameType
from typing import Any

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_END = b"\0"  # no signal has this number


@contextmanager
def on_signal(handle: Callable[[signal.Signals], None], *, once: bool = False) -> Iterator[None]:
    """Call `handle` in a thread with each signal while the block lasts; then restore the former handlers.

    With `once`, the second signal of a kind has its default effect. Outside the main thread, where Python
    receives no signals, it does nothing.
    """
    if current_thread() is not main_thread():
        yield
        return

    reading, writing = socket.socketpair()
    writing.setblocking(False)

    def note(number: int, frame: FrameType | None) -> None:
        if once:
            signal.signal(number, signal.SIG_DFL)

    def listen() -> None:
        while (number := reading.recv(1)) not in (_END, b""):
            if number[0] in _SIGNALS:
                handle(signal.Signals(number[0]))

    listener = Thread(target=listen, name="penstock-signals", daemon=True)
    listener.start()
    former: dict[signal.Signals, Any] = {each: signal.signal(each, note) for each in _SIGNALS}
    former_descriptor = signal.set_wakeup_fd(writing.fileno(), warn_on_full_buffer=False)
    try:
        yield
    finally:
        for each, handler in former.items():
            signal.signal(each, handler)
        signal.set_wakeup_fd(former_descriptor)
        writing.send(_END)
        listener.join()
        reading.close()
        writing.close()
