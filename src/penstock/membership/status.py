"""The status that a member writes into its own row, so that other processes can tell why work waits there.

Each heartbeat writes it, so it may be one heartbeat old. It covers only conditions that last: a member
without any has no status. Sizes are bounded, so that a heartbeat costs the same in every condition.
"""

import msgspec


class CallStatus(msgspec.Struct, frozen=True, omit_defaults=True):
    """One long-running call: its handler, the place of its record, its start, and its time limit."""

    handler: str
    place: str
    since_ms: int
    timeout_seconds: float | None = None


class LimitStatus(msgspec.Struct, frozen=True, omit_defaults=True):
    """A handler whose own limit makes records wait: its matches, the limit, and how many records wait.

    `until_ms`: when the rate allows the next call; None: the limit is its `concurrency`.
    """

    handler: str
    match: tuple[str, ...]
    bound: str
    waiting: int
    until_ms: int | None = None


class GroupStatus(msgspec.Struct, frozen=True, omit_defaults=True):
    """A member's status of one group.

    `calls`: the long-running calls, the oldest first. `waiting`: records that wait for a thread, while
    `running` calls are in progress. `hung`: calls beyond their time limit whose threads were abandoned, most
    of them of `handler`, the first since `since_ms`. `given_up`: the group is not served here, because too
    many calls hang.
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
    """A member's status.

    `trial_since_ms`: since when the member starts no other record, because it tries alone a record that may
    have killed a worker. `troubles`: by the name of each waiting loop, the error it waits on. `polls`: why
    the member does not listen for the bell; empty while it does.
    """

    groups: tuple[GroupStatus, ...] = ()
    trial_since_ms: int | None = None
    troubles: dict[str, str] = {}
    polls: str = ""

    def group(self, name: str) -> GroupStatus:
        """Return the status of a group."""
        return next((each for each in self.groups if each.name == name), GroupStatus(name))

    def encode(self) -> str | None:
        """Return it as JSON; None when there is nothing to report."""
        return None if self == SILENT else msgspec.json.encode(self, order="deterministic").decode()


SILENT = MemberStatus()


def decode_status(text: str | None) -> MemberStatus:
    """Return the status in a row; a status in a form unknown to this version counts as none."""
    if text is None:
        return SILENT
    try:
        return msgspec.json.decode(text, type=MemberStatus)
    except msgspec.MsgspecError:
        return SILENT
