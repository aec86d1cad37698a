"""Numbers of TinyQ's protocol: commands and the first byte of every answer."""

from enum import IntEnum


class TinyqCommand(IntEnum):
    """The first byte of a request. Those above 4 and below 200 need negotiated frames."""

    CREATE_CONSUME = 1
    CREATE_BROADCAST = 2
    PUBLISH = 3
    SUBSCRIBE = 4
    AUTHENTICATE = 5
    ACK = 6
    NACK = 7
    CREDIT = 8
    CLEAR = 200
    DELETE = 201
    NEGOTIATE = 254


OLD_COMMANDS = frozenset({1, 2, 3, 4, 200, 201, 254})


class TinyqCode(IntEnum):
    """The first byte of an answer."""

    SUCCESS = 0
    MESSAGE = 1  # a record for a subscriber; negotiated frames only
    COMMAND_UNREADABLE = 10
    COMMAND_UNKNOWN = 11
    SIZE_UNREADABLE = 20
    SIZE_INVALID = 21
    BODY_UNREADABLE = 30
    BODY_INVALID = 31
    REFUSED = 40
    LATE = 41
    INTERNAL = 50
    BUSY = 51
    PASSWORD = 100


class TinyqRefusal(Exception):
    """The received bytes are invalid: the answer is this code, and the connection closes."""

    def __init__(self, code: TinyqCode) -> None:
        super().__init__(code.name)
        self.code = code
