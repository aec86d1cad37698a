"""Bytes of requests in memory: within the bound and one request, and somebody always goes on."""

from penstock.broker.room import Room


class Told:
    """A connection that notes whether it was told to look again."""

    def __init__(self, room: Room) -> None:
        self._room, self.received, self.told = room, 0, 0

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


def a_room(most_bytes: int = 100) -> Room:
    return Room(most_bytes, lambda work: work())


def test_all_may_send_while_there_is_room() -> None:
    room = a_room()
    room.add(100)
    assert room.may_send(Told(room))
    room.add(1)
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
    room.add(90)  # whole
    first.receive(-90)
    assert not room.may_send(second)  # the whole request is answered first
    room.release(90)
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
    room.add(300)
    waiting.waits()
    room.release(100)
    assert waiting.told == 0
    room.release(150)
    assert waiting.told == 1
