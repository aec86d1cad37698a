"""Refuses what would end a shared transaction: statements, and the methods of its connection."""

import re

from penstock.errors import TransactionEnded

_ENDS = re.compile(
    r"(?:\s|;|--[^\n]*+(?:\n|$)|/\*(?:[^*]|\*(?!/))*+\*/)*+(commit|end|abort|rollback(?!\s+(?:(?:work|transaction)\s+)?to\b)|"
    r"prepare\s+transaction)\b",
    re.IGNORECASE,
)


def refuse_end(statement: object) -> None:
    """Raise TransactionEnded for a statement that begins like one that ends it; others are detected later."""
    text = statement.decode("latin-1") if isinstance(statement, bytes) else statement
    if isinstance(text, str) and (found := _ENDS.match(text)):
        raise TransactionEnded(f"{found[1].upper()} was executed on record.tx")


class HandlerConnection:
    """A connection that cannot end the transaction while a handler has it as `record.tx`: while it is guarded."""

    guarded = False

    def commit(self) -> None:
        """Commit; refuse it to a handler."""
        self.refuse("commit()")
        super().commit()  # type: ignore[misc]

    def rollback(self) -> None:
        """Roll back; refuse it to a handler."""
        self.refuse("rollback()")
        super().rollback()  # type: ignore[misc]

    def refuse(self, call: str) -> None:
        """Raise TransactionEnded for a call by a handler."""
        if self.guarded:
            raise TransactionEnded(f"{call} was called on record.tx")
