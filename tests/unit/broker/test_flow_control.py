"""Bytes of requests in memory: within the bound and one request, and somebody always goes on."""

from penstock.broker.flow_control import FlowControl


class Told:
    """A connection that notes whether it was told to look again."""

    def __init__(self, room: FlowControl, holder: str | None = None) -> None:
        self._room, self.received, self.told = room, 0, 0
        self.holder = holder or f"holder {id(self)}"

    @property
    def is_within(self) -> bool:
        return self.received > 0

    def regulate(self) -> None:
        self.told += 1

    def receive(self, change: int) -> None:
        self.received += change
        self._room.receive(self, change)

    def waits(self) -> None:
        assert not self._room.may_send(self)
        self._room.waiting.add(self)


def a_room(most_bytes: int = 100) -> FlowControl:
    return FlowControl(most_bytes, lambda work: work())


def test_all_may_send_while_there_is_room() -> None:
    room = a_room()
    room.add(100, "others")
    assert room.may_send(Told(room))
    room.add(1, "others")
    assert not room.may_send(Told(room))


def test_of_many_large_requests_one_is_received_when_there_is_no_room_for_all() -> None:
    room = a_room()
    first, second, idle = Told(room), Told(room), Told(room)
    first.receive(60)
    second.receive(60)
    assert not room.may_send(idle)
    assert room.may_send(first)
    second.waits()
    first.receive(30)
    assert room.may_send(first)
    room.add(90, first.holder)  # whole
    first.receive(-90)
    assert not room.may_send(second)  # the whole request is answered first
    room.release(90, first.holder)
    assert second.told == 1
    assert room.may_send(second)


def test_a_connection_that_ends_makes_way_for_the_next() -> None:
    room = a_room()
    first, second, third = Told(room), Told(room), Told(room)
    for each in (first, second, third):
        each.receive(90)
    assert room.may_send(first)
    second.waits()
    third.waits()
    first.receive(-90)
    room.leave(first)
    assert second.told >= 1
    assert room.may_send(second)
    assert not room.may_send(third)


def test_nobody_is_told_while_it_stays_full() -> None:
    room = a_room()
    waiting = Told(room)
    room.add(300, "others")
    waiting.waits()
    room.release(100, "others")
    assert waiting.told == 0
    room.release(150, "others")
    assert waiting.told == 1


def test_parts_of_requests_of_one_holder_keep_nobody_else_from_sending() -> None:
    room = a_room()
    mine = [Told(room, "ana") for _ in range(5)]
    for each in mine:
        if room.may_send(each):
            each.receive(20)
    assert room.requests.used == 60, "no more is read of ana than is free, but for a last piece"
    assert room.may_send(Told(room, "ben"))
    assert [room.may_send(each) for each in mine] == [True, False, False, False, False], "one ends its request"


def test_a_holder_goes_on_when_its_requests_are_answered_or_others_leave_room() -> None:
    room = a_room()
    mine, idle = Told(room, "ana"), Told(room, "ana")
    mine.receive(60)
    assert room.may_send(mine)
    idle.waits()
    room.add(60, "ana")
    mine.receive(-60)
    told = idle.told
    assert told
    assert not room.may_send(idle), "the whole request is answered first"
    room.release(60, "ana")
    assert idle.told == told + 1
    assert room.may_send(idle)
    assert not room.requests._held
    assert not room.partial._held


def test_one_that_ends_makes_way_for_another_of_its_holder() -> None:
    room = a_room()
    first, second = Told(room, "ana"), Told(room, "ana")
    first.receive(30)
    second.receive(30)
    assert room.may_send(first)
    second.waits()
    first.receive(-30)
    room.leave(first)
    assert second.told >= 1
    assert room.may_send(second)


def test_bytes_that_came_before_it_was_known_whose_they_are_move_to_them() -> None:
    room = a_room()
    room.add(40, "")
    sender = Told(room, "ana")
    room.move(sender, "", 40, 0)
    room.release(40, "ana")
    assert room.requests.used == 0
    assert not room.requests._held


def test_a_connection_that_moves_while_it_finishes_makes_way_at_its_old_holder() -> None:
    room = a_room()
    first, second = Told(room, "unknown"), Told(room, "unknown")
    for each in (first, second):
        each.receive(30)
    assert room.may_send(first), "it finishes"
    second.waits()
    first.holder = "ana"
    room.move(first, "unknown", 0, 30)
    first.receive(-30)
    room.leave(first)
    third = Told(room, "others")
    third.receive(50)
    assert room.may_send(second)
