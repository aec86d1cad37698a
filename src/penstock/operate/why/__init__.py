"""Explains why something has not been delivered, and when that will change.

`asking` joins the rest: `finding` searches for the subject, `standing` reads the state of a group there,
`members` the workers on it, and `history` the acts of persons; `explaining`, `unlogged` and `wholes` choose
the reason, and `sentences` word it. All rows are read on one snapshot, so an answer never contradicts itself.
"""

from .answer import Answer, Code, Kind, QuestionKind
from .asking import why

__all__ = ["Answer", "Code", "Kind", "QuestionKind", "why"]
