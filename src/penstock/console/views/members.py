"""Members, access rules and the audit."""

from penstock.access.resource import AccessRight, ResourceKind

from ..visit import PageView, PageVisit
from .overview import looked

PER_PAGE = 50


def members(visit: PageVisit) -> PageView:
    """List the members."""
    return PageView("members.html", {"overview": looked(visit)})


def access(visit: PageVisit) -> PageView:
    """Show the access rules, and explain one verdict."""
    asked = {name: visit.text(name) for name in ("principal", "right", "kind", "name")}
    verdict = None
    if asked["principal"] and asked["right"] and asked["kind"]:
        verdict = visit.ask("explain_access", **asked)
    values = {"access": visit.ask("list_rules"), "asked": asked, "verdict": verdict}
    values |= {"rights": list(AccessRight), "kinds": list(ResourceKind)}
    return PageView("access.html", values)


def audit(visit: PageVisit) -> PageView:
    """List the audit entries, newest first."""
    narrowed = {name: visit.text(name) for name in ("action", "actor")}
    page = visit.ask("list_audit", after=visit.place(), limit=PER_PAGE, **narrowed)
    return PageView("audit.html", {"listing": page})
