"""What a member says of its work in its own row, so that other processes can tell why something waits there.

It is written with each heartbeat, so it may be as old as one. Only what lasts is said: a member without
anything to say has no status. Sizes are bounded, so that a heartbeat costs the same whatever happens.
"""

import msgspec


class CallStatus(msgspec.Struct, frozen=True, omit_defaults=True):
    """One call that takes long: its handler, where its record stands, since when, and its time limit."""

    handler: str
    place: str
    since_ms: int
    timeout_seconds: float | None = None


class LimitStatus(msgspec.Struct, frozen=True, omit_defaults=True):
    """A handler at which records wait for its own bound: what it matches, the bound, and how many wait.

    `until_ms`: when the rate lets the next one begin; None: the bound is its `concurrency`.
    """

    handler: str
    match: tuple[str, ...]
    bound: str
    waiting: int
    until_ms: int | None = None


class GroupStatus(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a member says of one group.

    `calls`: those that take long, the oldest first. `waiting`: records that wait for a thread, while so many
    calls run. `hung`: calls beyond their time limit whose threads are left behind, most of them of `handler`,
    the first since `since_ms`. `given_up`: they are so many that the group is not served here.
    """

    name: str
    calls: tuple[CallStatus, ...] = ()
    running: int = 0
    waiting: int = 0
    limits: tuple[LimitStatus, ...] = ()
    hung: int = 0
    handler: str = ""
    since_ms: int | None = None
    given_up: bool = False


class MemberStatus(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a member says of itself.

    `trial_since_ms`: since when it begins nothing else, so that a record which may have killed a worker is
    tried alone. `troubles`: the error that each of its loops waits on, by the loop's name. `polls`: why it
    does not listen for the bell; empty while it does.
    """

    groups: tuple[GroupStatus, ...] = ()
    trial_since_ms: int | None = None
    troubles: dict[str, str] = {}
    polls: str = ""

    def group(self, name: str) -> GroupStatus:
        """Return what it says of a group."""
        return next((each for each in self.groups if each.name == name), GroupStatus(name))

    def encode(self) -> str | None:
        """Return it as JSON; None without anything to say."""
        return None if self == SILENT else msgspec.json.encode(self, order="deterministic").decode()


SILENT = MemberStatus()


def decode_status(text: str | None) -> MemberStatus:
    """Return what a row says; what is said in a way unknown to us is not heard."""
    if text is None:
        return SILENT
    try:
        return msgspec.json.decode(text, type=MemberStatus)
    except msgspec.MsgspecError:
        return SILENT
