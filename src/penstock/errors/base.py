"""The root of all errors, what each of them answers, and the table of a face: its answer to each error."""

from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import Any, ClassVar, Generic, TypeVar

Answer = TypeVar("Answer")
_PACKAGE = __name__.rpartition(".")[0]


class Fault(Enum):
    """The party that has to act to cure the error."""

    CALLER = "caller"  # the program or person that called
    OURS = "ours"  # Penstock, without help
    OUTSIDE = "outside"  # the machine, database or network around it


def shown(value: object, at_most: int = 80) -> str:
    """Return a value for use in a message: quoted, and cut when long."""
    text = repr(value)
    if len(text) <= at_most:
        return text
    size = len(value if isinstance(value, str | bytes) else text)
    return f"{text[:at_most]}… ({size} {'bytes' if isinstance(value, bytes) else 'characters'})"


class Error(Exception):
    """The root: `except penstock.Error` catches every error that Penstock defines."""

    __module__ = _PACKAGE
    code: ClassVar[str] = "error"
    fault: ClassVar[Fault] = Fault.OURS
    retryable: ClassVar[bool] = False
    closes: ClassVar[bool] = False

    def __init_subclass__(
        cls,
        code: str | None = None,
        fault: Fault | None = None,
        retryable: bool | None = None,
        closes: bool | None = None,
    ) -> None:
        """Keep the answers that a class gives in its first line; the others are those of its parent."""
        given = {"code": code, "fault": fault, "retryable": retryable, "closes": closes}
        for name, value in given.items():
            if value is not None:
                setattr(cls, name, value)
        if cls.__module__.startswith(f"{_PACKAGE}."):
            cls.__module__ = _PACKAGE  # tracebacks and `retry_on` have the name that programs import

    def __reduce__(self) -> tuple[Any, ...]:
        """Keep all fields when pickled; by default `__init__` would be called with the message alone."""
        return _rebuilt, (type(self), self.args, self.__dict__)


def _rebuilt(cls: type[Error], args: tuple[Any, ...], state: dict[str, Any]) -> Error:
    error = cls.__new__(cls, *args)
    error.args = args  # an OSError takes them when it is initialised
    error.__dict__.update(state)
    return error


def tree(root: type[Error] = Error) -> list[type[Error]]:
    """Return `root` and every error below it, parents before children, in the order they are written."""
    found = [root]
    for child in root.__subclasses__():
        found += tree(child)
    return found


class ErrorTable(Generic[Answer]):
    """The answers of a face (exit codes, HTTP statuses, Kafka numbers): by a rule, or by the nearest named class."""

    def __init__(self, rule: Callable[[type[Error]], Answer], named: Mapping[Answer, Iterable[type[Error]]]) -> None:
        """`rule`: from `fault` and `retryable` to the answer."""
        self.rule = rule
        self.named = {cls: answer for answer, classes in named.items() for cls in classes}

    def of(self, cls: type[Error]) -> Answer:
        """Return the answer of the nearest named class, or else that of the rule."""
        nearest = next((base for base in cls.__mro__ if base in self.named), None)
        return self.rule(cls) if nearest is None else self.named[nearest]
