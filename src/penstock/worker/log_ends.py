"""The ends of the log, as far as this process knows."""

from collections import deque
from collections.abc import Collection

from penstock.backoff import Backoff
from penstock.log.contract import Log, Topic
from penstock.outbox.sequencer import HeadEnds


class LogEnds:
    """The ends of the partitions of all topics that are read here, looked up for all groups at once.

    A look is due when the bell rings and from time to time, less often while nothing comes. The sequencer of
    this process reports the records it has moved, so that no look is needed for them. `ring` and `grown` are
    for any thread, the rest for the delivery loop's.
    """

    def __init__(self, log: Log, backoff: Backoff) -> None:
        self._log, self._backoff = log, backoff
        self._topics: dict[str, Topic] = {}
        self._ends: dict[int, dict[int, int]] = {}  # by the id of the topic: a recreated one has another
        self._grown: deque[HeadEnds] = deque()
        self._news: dict[int, set[int]] = {}  # by the id of the topic: partitions grown since `told`
        self._rung = True
        self.next_look = 0.0

    def ring(self) -> None:
        """Report that the log has grown; the next look comes at once."""
        self._rung = True

    def grown(self, ends: HeadEnds) -> None:
        """Report how far the log has grown: no look is needed to know it."""
        self._grown.append(ends)

    def add(self, topic: Topic) -> None:
        """Track the ends of one more topic; a recreated topic replaces the former one."""
        former = self._topics.get(topic.name)
        if former is not None and former.id != topic.id:
            del self._ends[former.id]
        self._ends.setdefault(topic.id, {})
        self._topics[topic.name] = topic

    def of(self, topic_id: int) -> dict[int, int]:
        """Return the end of each partition of a topic, if it is known and was not recreated."""
        return self._ends.get(topic_id, {})

    def news(self, topic_id: int) -> Collection[int]:
        """Return the partitions of a topic that have grown since `told`."""
        return self._news.get(topic_id, ())

    def told(self) -> None:
        """Record that all groups know the present ends."""
        self._news.clear()

    def refresh(self, now: float) -> bool:
        """Look if that is due, and take in the reported ends; return whether there was a look."""
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
        """Plan the next look, after one; it comes sooner if that found anything."""
        self.next_look = now + (self._backoff.active() if found else self._backoff.idle())
