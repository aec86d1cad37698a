"""Dead letters grouped by error: how often, and since when. Only the newest letters, to bound the work.

Two letters have the same error if their reasons agree up to the first digit, quote or bracket, where reasons
start to differ from record to record. That prefix also selects the letters (`DeadSelection.error`).
"""

import re
from dataclasses import dataclass
from datetime import datetime

from penstock.log.store import Store

from .dead import DeadLetter, dead_letters
from .operation import SeesTopic, every_topic, operation

LOOKED_AT = 1000  # letters, the newest
_LONGEST = 80
_VARIES = re.compile(r"[0-9'\"`({\[<\N{LEFT DOUBLE QUOTATION MARK}\N{LEFT SINGLE QUOTATION MARK}]")
_LEAST = 8  # characters: a shorter prefix tells too little, so the whole reason is the error


@dataclass(frozen=True, slots=True)
class DeadError:
    """One error in one group. `newest`: the last letter with it. `holding`: how many hold their keys."""

    group: str
    error: str
    count: int
    holding: int
    topics: tuple[str, ...]
    types: tuple[str, ...]
    first_at: datetime
    last_at: datetime
    newest: DeadLetter


@dataclass(frozen=True, slots=True)
class DeadErrors:
    """The errors of the newest letters, most frequent first. `is_cut`: there are older letters."""

    errors: list[DeadError]
    looked_at: int
    is_cut: bool


@operation
def dead_errors(
    store: Store,
    *,
    group: str | None = None,
    topic: str | None = None,
    type: str | None = None,
    seen: SeesTopic = every_topic,
) -> DeadErrors:
    """Return the errors of the newest dead letters, on the topics that the caller may see.

    Raises UnknownGroup, UnknownTopic.
    """
    page = dead_letters(store, group=group, topic=topic, type=type, limit=LOOKED_AT)
    letters_seen = [each for each in page.items if seen(each.topic)]
    found: dict[tuple[str, str], list[DeadLetter]] = {}
    for each in letters_seen:  # newest first
        found.setdefault((each.group, error_of(each.reason)), []).append(each)
    errors = [
        DeadError(
            group=name,
            error=error,
            count=len(letters),
            holding=sum(each.holding for each in letters),
            topics=tuple(sorted({each.topic for each in letters})),
            types=tuple(sorted({each.type for each in letters})),
            first_at=letters[-1].died_at,
            last_at=letters[0].died_at,
            newest=letters[0],
        )
        for (name, error), letters in found.items()
    ]
    errors.sort(key=lambda each: (-each.count, each.group, each.error))
    return DeadErrors(errors, len(letters_seen), page.after is not None)


def error_of(reason: str) -> str:
    """Return the prefix of a reason that letters with the same error share."""
    varies = _VARIES.search(reason)
    end = varies.start() if varies is not None and varies.start() >= _LEAST else len(reason)
    return reason[: min(end, _LONGEST)]
