"""Whether this member may start handlers."""

from penstock.membership.member import Member


class LeaseCheck:
    """Compares the lapses of a member's lease with those after which ownership was checked.

    While the lease is not renewed, and after a lapse until ownership is checked, no handler starts: another
    member may have taken over. `may_start` is for any thread, the rest for the delivery loop's.
    """

    def __init__(self, member: Member) -> None:
        self._member, self._seen = member, member.lapses

    def may_start(self) -> bool:
        """Return whether a handler may be called now."""
        return self._member.is_live() and self._seen == self._member.lapses

    def unseen(self) -> int | None:
        """Return the number of lapses if there was one since the last `see`."""
        lapses = self._member.lapses
        return None if lapses == self._seen else lapses

    def see(self, lapses: int) -> None:
        """Record that ownership was checked after this many lapses."""
        self._seen = lapses
