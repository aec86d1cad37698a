"""Refuses to end a shared transaction, or to make it read-only: by statements, or methods of its connection."""

import re

from penstock.errors import TransactionEnded

# Read-only modes end it, too: the cursor can no longer move.
_ENDS = re.compile(
    r"(?:\s|;|--[^\n]*+(?:\n|$)|/\*(?:[^*]|\*(?!/))*+\*/)*+(commit|end|abort|rollback(?!\s+(?:(?:work|transaction)\s+)?to\b)|"
    r"prepare\s+transaction|set\s+transaction\s+read\s+only|pragma\s+query_only(?=\s*[=(]))\b",
    re.IGNORECASE,
)


# What a `;` or a word means nothing in; comments nest in PostgreSQL, and are read so to a depth of two.
_COMMENT = r"/\*(?:[^*]|\*(?!/))*+\*/"
_QUOTED = re.compile(
    rf"--[^\n]*+|/\*(?:{_COMMENT}|[^*]|\*(?!/))*+\*/|"
    r"(?<![\w$])e'(?:[^'\\]|\\.|'')*+'|'(?:[^']|'')*+'|\"[^\"]*+\"|"
    r"(?<![\w$])\$(?P<tag>(?:[^\W\d]\w*+)?)\$.*?\$(?P=tag)\$",
    re.IGNORECASE | re.DOTALL,
)
_SQL_BODY = re.compile(r"\bbegin\s+atomic\b", re.IGNORECASE)  # of a function; it ends with END


def refuse_end(statement: object, *, several: bool = False) -> None:
    """Raise TransactionEnded for a statement that begins like one that ends it; others are detected later.

    `several`: the driver sends a text of several statements, so each of them is examined.
    """
    text = statement.decode("latin-1") if isinstance(statement, bytes) else statement
    if not isinstance(text, str):
        return
    each_text, in_body = [text], False
    if several and ";" in text:
        bare = _QUOTED.sub(" ", text)
        each_text += bare.split(";")
        in_body = bool(_SQL_BODY.search(bare))
    for found in filter(None, map(_ENDS.match, each_text)):
        if not (in_body and found[1].lower() == "end"):
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
