"""Signals are heard in a thread of their own, so that what is done about them cannot wait for itself."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from contextlib import suppress
from queue import SimpleQueue

from penstock.signals import on_signal


def test_a_signal_that_finds_the_lock_held_is_heard() -> None:
    """The main thread is inside `Event.set` or `wait`: a handler that sets the Event waits forever."""
    lock, heard = threading.Lock(), threading.Event()

    def hear(number: signal.Signals) -> None:
        with lock:
            heard.set()

    with on_signal(hear):
        with lock:
            signal.raise_signal(signal.SIGTERM)
        assert heard.wait(30)


def test_a_signal_that_another_thread_receives_is_heard_while_the_main_thread_waits() -> None:
    program = """
import signal, threading
from penstock.signals import on_signal

stopped = threading.Event()
with on_signal(lambda number: stopped.set()):
    kill = lambda: signal.pthread_kill(threading.get_ident(), signal.SIGTERM)
    threading.Timer(0.1, kill).start()
    stopped.wait()
"""
    assert subprocess.run([sys.executable, "-c", program], timeout=60).returncode == 0


def test_signals_are_heard_in_their_order_and_the_last_one_before_the_end() -> None:
    heard: list[signal.Signals] = []
    with on_signal(heard.append):
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGINT):
            signal.raise_signal(number)
    assert heard == [signal.SIGTERM, signal.SIGINT, signal.SIGINT]


def test_the_former_handlers_are_put_back() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with suppress(RuntimeError), on_signal(lambda _: None):
        assert signal.getsignal(signal.SIGTERM) not in before
        raise RuntimeError("of the block")
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before
    assert "penstock-signals" not in [thread.name for thread in threading.enumerate()]


def test_elsewhere_than_in_the_main_thread_nothing_is_heard() -> None:
    ran: SimpleQueue[bool] = SimpleQueue()
    before = signal.getsignal(signal.SIGTERM)

    def run() -> None:
        with on_signal(lambda _: None):
            ran.put(signal.getsignal(signal.SIGTERM) is before)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert ran.get()


def test_once_lets_the_second_signal_end_the_program() -> None:
    program = """
import signal
from threading import Event
from penstock.signals import on_signal

heard = Event()
with on_signal(lambda _: heard.set(), once=True):
    signal.raise_signal(signal.SIGTERM)
    assert heard.wait(30)
    print("heard", flush=True)
    signal.raise_signal(signal.SIGTERM)
    print("not reached")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (-signal.SIGTERM, "heard\n"), done.stderr
