"""How far the log goes, as far as this process knows."""

from collections import deque
from collections.abc import Collection

from penstock.backoff import Backoff
from penstock.log.contract import Log, Topic
from penstock.outbox.sequencer import HeadEnds


class LogEnds:
    """The ends of the partitions of all topics that are read here, looked up for all groups at once.

    A look is due when the bell rings and from time to time, less often while nothing comes. The sequencer of
    this process tells what it has moved, so that no look is needed for it. `ring` and `grown` are for any
    thread, the rest for the delivery loop's.
    """

    def __init__(self, log: Log, backoff: Backoff) -> None:
        self._log, self._backoff = log, backoff
        self._topics: dict[str, Topic] = {}
        self._ends: dict[int, dict[int, int]] = {}  # by the id of the topic: one made anew is another
        self._grown: deque[HeadEnds] = deque()
        self._news: dict[int, set[int]] = {}  # by the id of the topic: where it has grown since `told`
        self._rung = True
        self.next_look = 0.0

    def ring(self) -> None:
        """Say that the log has grown; the next look comes at once."""
        self._rung = True

    def grown(self, ends: HeadEnds) -> None:
        """Say how far the log has grown: no look is needed to know it."""
        self._grown.append(ends)

    def add(self, topic: Topic) -> None:
        """Know the ends of one more topic; of one that was made anew, instead of the former one."""
        former = self._topics.get(topic.name)
        if former is not None and former.id != topic.id:
            del self._ends[former.id]
        self._ends.setdefault(topic.id, {})
        self._topics[topic.name] = topic

    def of(self, topic_id: int) -> dict[int, int]:
        """Return the end of each partition of a topic, if it is known and was not made anew."""
        return self._ends.get(topic_id, {})

    def news(self, topic_id: int) -> Collection[int]:
        """Return where a topic has grown since all groups were last told."""
        return self._news.get(topic_id, ())

    def told(self) -> None:
        """Take note that all groups know how far it goes."""
        self._news.clear()

    def refresh(self, now: float) -> bool:
        """Look if that is due, and take in what was told; return whether there was a look."""
        looked = self._rung or now >= self.next_look
        if looked:
            self._rung = False
            try:
                for topic in self._topics.values():
                    found = self._log.ends(topic)
                    if found != self._ends[topic.id]:  # else groups need not look at each partition
                        self._ends[topic.id] = found
            except BaseException:
                self._rung = True
                raise
        while self._grown:
            for (topic_id, partition), end in self._grown.popleft().items():
                known = self._ends.get(topic_id)
                if known is not None and end > known.get(partition, 0):
                    known[partition] = end
                    self._news.setdefault(topic_id, set()).add(partition)
        return looked

    def plan_next(self, now: float, *, found: bool) -> None:
        """Say, after a look, whether there was anything: the next one comes sooner then."""
        self.next_look = now + (self._backoff.active() if found else self._backoff.idle())
