"""`penstock worker --reload`: a worker that restarts when the code changes. For development only.

The worker is a separate process, started by the same command line without `--reload`; this one watches. It
imports nothing of the application, so code that cannot be imported ends the worker but not the watch.
"""

import signal
import subprocess
import sys
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from threading import Event

import click

from penstock.errors import MissingExtra
from penstock.signals import on_signal

from .output import is_terminal

_LOOK_MS = 200  # until the end of the worker is noticed


def run_reloading(targets: Iterable[str]) -> int:
    """Run the worker until a signal, restart it after changes; return its exit code. Raises MissingExtra."""
    try:
        from watchfiles import PythonFilter, watch
    except ModuleNotFoundError as exc:
        raise MissingExtra("worker --reload", "reload") from exc
    folders, stopping = _folders(targets), Event()
    worker = _ReloadedWorker([sys.executable, *(each for each in sys.orig_argv[1:] if each != "--reload")])
    _say(f"watching {', '.join(map(str, folders))}; for development only")

    def stop(number: signal.Signals) -> None:
        stopping.set()
        worker.pass_on(number)

    with on_signal(stop):
        looks = watch(
            *folders, watch_filter=PythonFilter(), stop_event=stopping, rust_timeout=_LOOK_MS, yield_on_timeout=True
        )
        for changes in looks:  # the first one comes once it watches: no later change is missed
            if changes:
                names = ", ".join(sorted({Path(path).name for _, path in changes}))
                _say(f"{names} changed: the worker is restarted")
            if changes or not worker.was_started:
                worker.restart(stopping)
            worker.report_end()
        return worker.wait()


class _ReloadedWorker:
    """The process of the worker: the one that runs now, or the last one."""

    def __init__(self, command: list[str]) -> None:
        self._command = command
        self._process: subprocess.Popen[bytes] | None = None
        self._is_end_reported = False

    @property
    def was_started(self) -> bool:
        return self._process is not None

    def restart(self, stopping: Event) -> None:
        """Stop the running process gracefully and start the next one, unless `stopping` is set."""
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
        self.wait()
        if not stopping.is_set():
            self._process = subprocess.Popen(self._command)  # noqa: S603 - our own command line
            self._is_end_reported = False
        if stopping.is_set():  # set in between
            self.pass_on(signal.SIGTERM)

    def report_end(self) -> None:
        """Print once that the process has ended of its own accord."""
        code = None if self._process is None else self._process.poll()
        if code is not None and not self._is_end_reported:
            self._is_end_reported = True
            _say(f"the worker has ended with exit code {code}; it restarts after the next change")

    def pass_on(self, number: signal.Signals) -> None:
        """Stop the process, unless Ctrl-C in a terminal has reached it already. From any thread."""
        from_terminal = number is signal.SIGINT and is_terminal()
        if self._process is not None and self._process.poll() is None and not from_terminal:
            self._process.terminate()

    def wait(self) -> int:
        return 0 if self._process is None else max(0, self._process.wait())


def _folders(targets: Iterable[str]) -> list[Path]:
    """Return the folders of the application's files: this one, and that of each module elsewhere."""
    here = Path.cwd()
    found = [here]
    for target in targets:
        name = target.partition(":")[0].partition(".")[0]
        spec = find_spec(name) if name.isidentifier() else None
        places = [] if spec is None else list(spec.submodule_search_locations or ())
        if spec is not None and not places and spec.has_location:
            places = [str(Path(str(spec.origin)).parent)]
        found += [Path(each) for each in places if not Path(each).is_relative_to(here)]
    return list(dict.fromkeys(each for each in found if each.is_dir()))


def _say(text: str) -> None:
    click.echo(f"reload: {text}", err=True)
