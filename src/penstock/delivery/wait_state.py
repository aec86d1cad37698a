"""Why a stored lane waits. The state decides; the reason beside it is only for people to read."""

from enum import Enum


class WaitState(Enum):
    """The reason why the lane of a row waits."""

    RETRYING = "retrying"  # its head failed, or asked for a retry: until it is due
    SNOOZED = "snoozed"  # its head was put off by its handler: until it is due
    REQUEUED = "requeued"  # a person has put its head back: it may go at once
    LAST = "last"  # a person has put one record back, to come after the waiting records of its key
    MOVED = "moved"  # the topic has grown: until its key is done in the partition where it was before
    SLOW = "slow"  # nothing has failed: more came than its handler could do at once
    HELD = "held"  # a dead letter holds it: until a person decides

    @property
    def text(self) -> str:
        """The reason to show where no other is known."""
        return _TEXTS.get(self, self.value)


_TEXTS = {
    WaitState.LAST: "requeued, behind what waits of its key",
    WaitState.MOVED: "behind what waits of its key in the partition where it was before the topic grew",
    WaitState.HELD: "held by a dead letter",
}
