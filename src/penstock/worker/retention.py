"""The retention service: a thread of the worker that deletes what need not be kept, tokens included.

The owner of slot 0 does it, or the single process that writes a log; two at once delete the same records once. Every
worker records, before each pass, that its groups have a member.
"""

from collections.abc import Collection
from threading import Event, Thread

from penstock.backoff import Backoff, PollingSettings
from penstock.clock import Clock
from penstock.delivery.groups import note_seen
from penstock.delivery.retention import Retention, Trimmed
from penstock.delivery.retention_rule import RetentionSettings
from penstock.log.sql.parted_writes import PartedWrites
from penstock.log.store import Store
from penstock.membership.member import Member
from penstock.outbox.tokens import TokensSettings, trim_tokens

_SLOT = 0  # its owner runs the passes


class Housekeeping:
    """The deletions of one pass: records of the log, expired tokens, parted writes never released."""

    def __init__(self, store: Store, clock: Clock, settings: RetentionSettings | None = None) -> None:
        self._database, self._clock = store.database, clock
        self._settings = settings or RetentionSettings.load()
        self._window_ms = TokensSettings.load().window_ms
        self._parts = PartedWrites(store.database, clock)
        self.retention = Retention(store, self._settings, clock)

    def run(self, topic: str | None = None) -> Trimmed:
        """Run one pass; for a single topic, over its records only."""
        done = self.retention.run(topic)
        if topic is None and (self._tokens() or self._parts.expire()):
            return Trimmed(done.deleted, full=True)
        return done

    def _tokens(self) -> bool:
        size, before_ms = self._settings.batch_size, self._clock.now_ms() - self._window_ms
        for _ in range(self._settings.batches_per_pass):
            if self._database.run(lambda tx: trim_tokens(tx, before_ms, size)) < size:
                return False
        return True


class RetentionService:
    """Runs passes in a thread of its own. `start` and `stop` may be called twice."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        *,
        member: Member | None,
        groups: Collection[str],
        settings: RetentionSettings | None = None,
        polling: PollingSettings | None = None,
    ) -> None:
        self._settings = settings or RetentionSettings.load()
        self._database, self._log, self._clock = store.database, store.log, clock
        self._member, self._groups = member, groups
        self._housekeeping = Housekeeping(store, clock, self._settings)
        self._backoff = Backoff("retention", polling or PollingSettings.load())
        self._stopping = Event()
        self._thread: Thread | None = None

    def start(self) -> None:
        """Begin; returns at once. The first pass comes after one interval."""
        if self._thread is None:
            self._stopping.clear()
            self._thread = Thread(target=self._run, name="penstock-retention", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """End after the pass under way; returns when the thread has ended."""
        self._stopping.set()
        thread = self._thread  # another thread may be stopping it too
        if thread is not None:
            thread.join()
            self._thread = None

    def turn(self) -> bool:
        """Do what is due; return whether more work is left to do at once."""
        if self._groups:  # before the pass: if the clock has jumped, groups at work would look abandoned
            self._database.run(lambda tx: note_seen(tx, self._groups, self._clock))
        return self._is_ours() and self._housekeeping.run().full

    def _is_ours(self) -> bool:
        """Return whether this process runs the passes: as the log's single writer, or as the slot's owner."""
        here = self._log.trims_here
        if here is not None or self._member is None:
            return bool(here)
        return _SLOT in self._member.fence.epochs

    def _run(self) -> None:
        pause = self._settings.interval.total_seconds()
        while not self._stopping.wait(pause):
            try:
                full = self.turn()
                self._backoff.is_well()
                pause = 0.0 if full else self._settings.interval.total_seconds()
            except Exception as exc:
                pause = self._backoff.trouble(exc)
