"""Why something has not been delivered, and when that will change.

`asking` joins the rest: `finding` looks for what was asked about, `standing` reads how a group stands to it,
`members` who works on it and `history` what persons did; `explaining`, `unlogged` and `wholes` decide which
reason counts, and `sentences` say it. All rows are read on one snapshot, so an answer never contradicts
itself.
"""

from .answer import Answer, Code, Kind, QuestionKind
from .asking import why

__all__ = ["Answer", "Code", "Kind", "QuestionKind", "why"]
