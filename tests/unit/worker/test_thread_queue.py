"""Which call is next when several groups wait for threads."""

from collections import Counter

from penstock import Fixed
from penstock.delivery.verdict import Dead, Rules
from penstock.worker.calling.thread_pool import FallbackCall, QueuedCall, ThreadQueue
from penstock.worker.handler import Handler, HandlerTask, TaskPlace
from tests.suites.records import a_record


def some_tasks(group: str, many: int) -> list[HandlerTask]:
    """Return tasks of one group."""
    handler = Handler(function=lambda record: None, group=group, id=f"shop.{group}", rules=Rules(Fixed()))
    return [HandlerTask(TaskPlace(0, at), f"k-{at}", handler, a_record(), 0) for at in range(many)]


def take_all(queue: ThreadQueue) -> list[QueuedCall]:
    """Begin what may begin, each call in a thread of its own."""
    found = list[QueuedCall]()
    while (call := queue.take(None, fallbacks_only=False)) is not None:
        found.append(call)
    return found


def groups_of(calls: list[QueuedCall]) -> Counter[str]:
    return Counter(call.handler.group for call in calls)


def test_a_group_alone_may_use_every_thread() -> None:
    queue = ThreadQueue(8)
    queue.add(some_tasks("mail", 20))
    assert queue.may_begin() == 8
    assert len(take_all(queue)) == 8
    assert queue.may_begin() == 0


def test_a_group_gets_its_share_although_another_holds_every_thread() -> None:
    queue = ThreadQueue(8)
    queue.add(some_tasks("mail", 20))
    take_all(queue)
    queue.add(some_tasks("ledger", 20))
    assert queue.may_begin() == 4
    assert groups_of(take_all(queue)) == {"ledger": 4}
    assert queue.most_threads == 12


def test_every_group_has_at_least_one_thread_however_many_there_are() -> None:
    queue = ThreadQueue(2)
    for number in range(5):
        queue.add(some_tasks(f"group-{number}", 3))
        take_all(queue)
    assert groups_of(take_all(queue)) == {}
    assert queue.most_threads == 6


def test_a_thread_that_ends_a_call_above_its_share_goes_to_whom_it_is_owed() -> None:
    queue = ThreadQueue(4)
    queue.add(some_tasks("mail", 20))
    take_all(queue)
    queue.add(some_tasks("ledger", 20))
    assert groups_of(take_all(queue)) == {"ledger": 2}
    assert queue.take("mail", fallbacks_only=False) is None  # five are still under way
    assert queue.take("mail", fallbacks_only=False) is None
    again = queue.take("mail", fallbacks_only=False)
    assert again is not None
    assert again.handler.group == "mail"
    assert queue.take("ledger", fallbacks_only=False) is not None


def test_groups_keep_their_shares_and_have_what_is_left_in_turn() -> None:
    queue = ThreadQueue(4)
    for group in ("mail", "ledger", "stock"):
        queue.add(some_tasks(group, 10))
    begun = groups_of(take_all(queue))
    assert sorted(begun.values()) == [1, 1, 2]
    (ended,) = (group for group, count in begun.items() if count == 2)
    in_turn = Counter[str]()
    for _ in range(6):
        call = queue.take(ended, fallbacks_only=False)
        assert call is not None
        ended = call.handler.group
        in_turn[ended] += 1
    assert in_turn == {"mail": 2, "ledger": 2, "stock": 2}


def test_fallbacks_come_first_and_are_all_that_begins_in_the_end() -> None:
    queue = ThreadQueue(4)
    [failed, other] = some_tasks("mail", 2)
    queue.add(some_tasks("ledger", 2))
    queue.add([other])
    fallback = FallbackCall(failed, Dead(1, "no", hold=True))
    queue.add_fallback(fallback)
    assert queue.may_begin(fallbacks_only=True) == 1
    assert queue.take(None, fallbacks_only=True) is fallback
    assert queue.take("mail", fallbacks_only=True) is None
    assert queue.may_begin() == 3


def test_what_is_put_back_is_the_next_of_its_group() -> None:
    queue = ThreadQueue(1)
    queue.add(some_tasks("mail", 2))
    first = queue.take(None, fallbacks_only=False)
    assert isinstance(first, HandlerTask)
    assert queue.take(None, fallbacks_only=False) is None
    queue.put_back(first)
    assert queue.take(None, fallbacks_only=False) is first
