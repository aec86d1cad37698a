"""Refuses statements that would end a shared transaction."""

import re

from penstock.errors import TransactionEnded

_ENDS = re.compile(
    r"(?:\s|;|--[^\n]*+(?:\n|$)|/\*(?:[^*]|\*(?!/))*+\*/)*+(commit|end|abort|rollback(?!\s+(?:(?:work|transaction)\s+)?to\b)|"
    r"prepare\s+transaction)\b",
    re.IGNORECASE,
)


def refuse_end(statement: object) -> None:
    """Raise TransactionEnded for a statement that would end the transaction of `record.tx`.

    It checks the first word only: an end by a procedure, or by a second statement in the same text, is detected later.
    """
    text = statement.decode("latin-1") if isinstance(statement, bytes) else statement
    if isinstance(text, str) and (found := _ENDS.match(text)):
        raise TransactionEnded(f"{found[1].upper()} was executed on record.tx")
