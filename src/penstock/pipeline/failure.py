"""Failures of Spark: each in one sentence, whether a retry may help, and the back-off."""

import re

from penstock import errors
from penstock.clock import SYSTEM, Clock
from penstock.errors import Error, PipelineFailed, PipelineInterrupted

_OURS = re.compile(r"penstock\.errors\.(?P<name>\w+): (?P<said>.+)")
_PYTHON = re.compile(r"^(?:\w+\.)*\w*(?:Error|Exception): .+$", re.MULTILINE)
_STATE = re.compile(
    r"STATE_STORE_(?:KEY|VALUE)_SCHEMA_NOT_COMPATIBLE|STATEFUL_OPERATOR_NOT_MATCH"
    r"|sources in the checkpoint offsets and now there are"
)
_JAVA_GONE = "Spark's Java process has ended"
_ENDED = "Spark was shut down from outside"
_SHUT_DOWN = re.compile(
    rf"{_JAVA_GONE}|{_ENDED}|cleanupQueryJobs|stopped SparkContext"
    r"|SparkContext (?:was|has been) (?:shut ?down|stopped)",
    re.IGNORECASE,
)
_FAILS = (
    (_SHUT_DOWN, _ENDED),
    (
        re.compile(r"No module named '?\"?penstock"),
        "the Python of Spark's workers has no Penstock; install penstock-outbox[spark] there, or name one that "
        "has it: --conf spark.pyspark.python=PATH",
    ),
    (
        re.compile(
            r"CONCURRENT_STREAM_LOG_UPDATE|Multiple streaming queries are concurrently using|CONCURRENT_QUERY\b"
        ),
        "another driver runs the same pipeline into the same folder and was first with this batch; "
        "nothing is lost or doubled. Let one of them run",
    ),
)
# Spark's messages about lost processes, connections or space, most specific first; none is about the data.
_PASSES = (
    (re.compile(r"Python worker failed to connect back", re.IGNORECASE), "a Python worker did not start in time"),
    (re.compile(r"CANNOT_OPEN_SOCKET|Accept timed out"), "Spark's Java and Python did not connect in time"),
    (re.compile(r"Python worker exited unexpectedly", re.IGNORECASE), "a Python worker was lost"),
    (
        re.compile(r"ExecutorLostFailure|executor \S+ (?:was )?lost|Lost executor", re.IGNORECASE),
        "an executor was lost",
    ),
    (
        re.compile(r"No space left on device|\b(?:Errno|os error) 28\b|Disk quota exceeded"),
        "no space is left on the disk of the tables, of the checkpoint or of Spark's temporary files",
    ),
    (re.compile(r"MetadataFetchFailed|FetchFailed\b"), "a shuffle was lost with its executor"),
    (
        re.compile(r"Connection (?:refused|reset)|Broken pipe|server closed the connection|terminating connection"),
        "a connection was refused or lost",
    ),
)


def failure(said: str) -> Error:
    """Return our error for a report of Spark."""
    ours = _OURS.findall(said)
    if ours:
        name, text = ours[-1]
        kind = getattr(errors, name, PipelineFailed)
        return PipelineInterrupted(text.strip()) if kind.retryable else PipelineFailed(text.strip())
    for pattern, what in _FAILS:
        if pattern.search(said):
            return PipelineFailed(what)
    if _STATE.search(said):
        return PipelineFailed(
            "the query is another than the one whose state the checkpoint keeps, and nothing was written: "
            f"{reason(said)}. Run the code from before, or begin again, while the old table stays: penstock "
            "pipeline reset FOLDER --rebuild"
        )
    for pattern, what in _PASSES:
        if pattern.search(said):
            return PipelineInterrupted(what)
    return PipelineFailed(reason(said))


def java_gone() -> Error:
    """Return the error for a Java process that has ended."""
    return PipelineFailed(f"{_JAVA_GONE}; it may have run out of memory: --conf spark.driver.memory=4g")


def is_shut_down(error: Error) -> bool:
    """Return whether an error only reports that Spark shuts down, or has shut down."""
    return _SHUT_DOWN.search(str(error)) is not None


def reason(said: str) -> str:
    """Return the line of Spark's report that names the cause: our error, or the innermost one of Python."""
    ours = _OURS.findall(said)
    if ours:
        return str(ours[-1][1]).strip()
    python = [line for line in _PYTHON.findall(said) if not line.startswith("py4j.")]
    return (python[-1] if python else said.strip().partition("\n")[0]).strip()


_FIRST_SECONDS, _LONGEST_SECONDS = 1.0, 30.0


class RetryBackoff:
    """The retries since the last success. Each pause doubles the one before; each message is logged once."""

    def __init__(self, limit_seconds: float, clock: Clock = SYSTEM) -> None:
        self._limit, self._clock = limit_seconds, clock
        self.succeeded()

    def succeeded(self) -> None:
        """Forget earlier failures."""
        self._since: float | None = None
        self._pause, self._said = _FIRST_SECONDS, ""

    def pause_after(self, error: Error) -> float | None:
        """Return the pause before the next try; None: do not retry."""
        if not error.retryable:
            return None
        now = self._clock.monotonic()
        self._since = now if self._since is None else self._since
        if now - self._since >= self._limit:
            return None
        pause = min(self._pause, self._since + self._limit - now)
        self._pause = min(2 * self._pause, _LONGEST_SECONDS)
        return pause

    def is_new(self, error: Error) -> bool:
        """Return whether an error's message differs from the last one, and record it."""
        said, self._said = self._said, str(error)
        return said != self._said
