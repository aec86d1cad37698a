"""Dead letters: grouped by error, listed, and one of them with its record."""

from ..visit import PageView, PageVisit
from .topics import SHOWN_BYTES, forms_of, value_of

PER_PAGE = 50
NARROWING = ("group", "topic", "type", "key", "error")


def failures(visit: PageVisit) -> PageView:
    """Show the errors that dead letters died of, and the letters."""
    narrowed = {name: visit.text(name) for name in NARROWING}
    errors = visit.ask("list_errors", **{name: narrowed[name] for name in ("group", "topic", "type")})
    page = visit.ask("list_dead", after=visit.place(), limit=PER_PAGE, **narrowed)
    is_narrow = any(narrowed[name] for name in ("type", "key", "error"))
    return PageView(
        "failures.html", {"errors": errors, "listing": page, "narrowed": narrowed, "is_narrow": is_narrow}
    )


def letter(visit: PageVisit) -> PageView:
    """Show one dead letter with its record."""
    place = {name: visit.text(name) for name in ("group", "topic", "partition", "offset")}
    found = visit.ask("show_dead", **place)
    data = value_of(found.record)
    forms = forms_of(data)
    wanted = visit.text("as")
    form = wanted if wanted in forms else next(iter(forms))
    values = {"letter": found.letter, "record": found.record, "damage": found.damage, "forms": list(forms)}
    values |= {"form": form, "text": forms[form], "size": None if data is None else len(data)}
    values["is_cut"] = data is not None and len(data) > SHOWN_BYTES
    return PageView("letter.html", values)
