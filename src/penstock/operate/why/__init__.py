"""Explains why something has not been delivered, and when that will change.

`question` joins the rest: `finder` searches for the subject, `record_case` reads the state of a group there, `members`
the workers on it, and `history` the acts of persons; `record_reasons`, `group_reasons`, `member_reasons` and `unlogged`
choose the reason, and `sentences` word it. All rows are read on one snapshot, so an answer never contradicts itself.
"""

from .answer import Answer, Code, QuestionKind
from .question import why

__all__ = ["Answer", "Code", "QuestionKind", "why"]
