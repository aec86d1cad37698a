"""Errors of groups, handlers and schedules."""

from collections.abc import Iterable

from .base import Error, Fault, shown


class GroupError(Error, code="group", fault=Fault.CALLER):
    """A group, a lease or a dead letter is not as the call expects."""


class UnknownGroup(GroupError, code="unknown_group"):
    """There is no group of that name."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"there is no group {shown(name)}; `penstock groups list` shows the groups, and a group is "
            "created when its handlers first run"
        )


class CursorBeyondEnd(GroupError, code="cursor_beyond_end", fault=Fault.OUTSIDE):
    """A group has passed records that the log has since lost: it stops until an operator accepts the loss."""

    def __init__(self, group: str, topic: str, partition: int, offset: int, low: int) -> None:
        super().__init__(
            f"group {shown(group)} is stopped: it stands at offset {offset:,} of {topic}/{partition}, but "
            f"the log has lost its records from offset {max(0, low):,} on; restore a backup, or accept the "
            "loss and let the group continue: penstock restored"
        )
        self.group, self.topic, self.partition, self.offset, self.low = group, topic, partition, offset, low


class GroupKindDiffers(GroupError, code="group_kind_differs"):
    """A client cannot use a group of handlers, nor handlers a group of clients."""

    def __init__(self, group: str, found: str, wanted: str) -> None:
        super().__init__(
            f"group {shown(group)} is of kind {found}, not {wanted}: its progress belongs to its creator; "
            "choose another name"
        )


class GroupBusy(GroupError, code="group_busy", retryable=True):
    """A group is not deleted while members serve it."""

    def __init__(self, group: str, members: list[str]) -> None:
        super().__init__(
            f"group {group} is served by {len(members)} members ({shown(', '.join(members))}): stop them first"
        )


class UnknownLease(GroupError, code="unknown_lease"):
    """The lease has expired or belongs to another process: its records are delivered again."""

    def __init__(self, lease: str) -> None:
        super().__init__(
            f"lease {shown(lease)} is not held here: it has expired, or belongs to another gateway; records "
            "that were not acknowledged are delivered again, so fetch again"
        )


class NotSettled(GroupError, code="not_settled", fault=Fault.OUTSIDE, retryable=True):
    """A client's acknowledgement could not be settled in time, or another process owns the records now."""

    def __init__(self, group: str, count: int) -> None:
        super().__init__(
            f"{count} results for group {group!r} are not settled yet: the store is slow, or another process "
            "has taken over; acknowledge again, and expect the records again if that fails"
        )


class GatewayBusy(GroupError, code="gateway_busy", retryable=True):
    """A gateway has reached a limit of groups, streams, bodies or answers, or is shutting down."""

    def __init__(self, why: str) -> None:
        super().__init__(f"{why}; try again, or use another gateway")


class UnknownDeadLetter(GroupError, code="unknown_dead_letter"):
    """There is no such dead letter: it was requeued or discarded, or the record never became one."""

    def __init__(self, what: str) -> None:
        super().__init__(f"there is no dead letter {what}; it was requeued or discarded, or never was one")


class ScheduleError(Error, code="schedule", fault=Fault.CALLER):
    """Something is wrong with a schedule of periodic events."""


class InvalidSchedule(ScheduleError, code="invalid_schedule"):
    """The declaration of a schedule is not valid."""

    def __init__(self, name: object, why: str) -> None:
        super().__init__(f"schedule {shown(name)}: {why}")
        self.name = name


class UnknownSchedule(ScheduleError, code="unknown_schedule"):
    """No worker has ever declared a schedule of this name."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"there is no schedule {shown(name)} in this store; `penstock periodic list` shows the schedules "
            "that workers have declared"
        )
        self.name = name


class SchedulePaused(ScheduleError, code="schedule_paused"):
    """A paused schedule does not tick."""

    def __init__(self, name: str) -> None:
        super().__init__(f"schedule {shown(name)} is paused; resume it first: penstock periodic resume")
        self.name = name


class ScheduleInUse(ScheduleError, code="schedule_in_use"):
    """A schedule is not removed while running workers declare it: they would create it again."""

    def __init__(self, name: str, workers: int) -> None:
        by = "1 running worker" if workers == 1 else f"{workers} running workers"
        super().__init__(
            f"schedule {shown(name)} is declared by {by}; delete it from the code and deploy first, or pause it"
        )
        self.name, self.workers = name, workers


class HandlerError(Error, code="handler", fault=Fault.CALLER):
    """A handler cannot be registered or called."""


class InvalidHandler(HandlerError, code="invalid_handler"):
    """A handler was registered with an invalid option."""

    def __init__(self, group: str, why: str) -> None:
        super().__init__(f"handler in group {shown(group)}: {why}")


class DuplicateHandler(HandlerError, code="duplicate_handler"):
    """Two handlers have the same id, or match the same records in one group."""

    def __init__(self, what: str, value: str) -> None:
        super().__init__(f"two handlers have the same {what}: {value}; change the {what} or the group of one of them")


class HandlerTimeout(HandlerError, code="handler_timeout", retryable=True):
    """A handler ran longer than its timeout; the attempt counts as failed."""

    def __init__(self, id: str, seconds: float) -> None:
        super().__init__(f"handler {id} did not finish within {seconds:g} s; make it faster, or raise its timeout=")
        self.id, self.seconds = id, seconds


class NotTransactional(HandlerError, code="not_transactional"):
    """A handler used `record.tx` without being registered with `transaction=True`."""

    def __init__(self, type: str, id: str) -> None:
        super().__init__(f"record.tx of {type} {id}: only a handler registered with transaction=True has it")


class TransactionEnded(HandlerError, code="transaction_ended"):
    """A handler ended the transaction that it shares with its cursor."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"{what}, but Penstock commits record.tx together with the cursor; leave out commit, rollback "
            "and close, and read-only modes, and use a savepoint for statements that may fail"
        )


class SessionEnded(HandlerError, code="session_ended", fault=Fault.OUTSIDE, retryable=True):
    """The server ended the session or a statement of `record.tx`; the attempt counts as failed."""

    def __init__(self, id: str, why: str) -> None:
        super().__init__(why)
        self.id = id


class GroupsGivenUp(HandlerError, code="groups_given_up"):
    """Too many calls hang in every group of a worker: it serves none of them any more."""

    def __init__(self, groups: Iterable[str]) -> None:
        """`groups`: a description of each given-up group."""
        super().__init__(
            f"no group is served here any more: {'; '.join(groups)}. Restart the process, and give the calls "
            "that these handlers wait for a time limit shorter than their timeout="
        )
