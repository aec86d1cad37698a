"""The pages of Django's admin: dead letters, waiting lanes and groups.

They use `penstock.operate`, page by page, and count nothing: a store may hold millions. Django's permissions
control access to a page and to requeue and discard; decisions are in the audit log, with the user's name.
"""

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlencode

import msgspec
from django.contrib import admin, messages
from django.core.exceptions import BadRequest, PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import path, reverse

from penstock.errors import Error
from penstock.log.store import Store
from penstock.operate import dead, groups, lanes
from penstock.operate.operation import Page

from . import project
from .admin_lists import Listed, listed_groups, listed_lanes, listed_letters, shown_record
from .models import DeadList, GroupList, LaneList

PAGE_ROWS = 50
_DECISIONS = {"requeue": dead.requeue, "discard": dead.discard}


class _Listing(admin.ModelAdmin):  # type: ignore[misc]  # Django brings no types
    """A list that is read page by page, with filters."""

    permission = ""
    filters: Sequence[str] = ()
    columns: Sequence[str] = ()
    actions: Sequence[str] = ()

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return bool(request.user.has_perm(f"penstock.view_{self.permission}"))

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Return False: nothing is added by hand."""
        return False

    has_change_permission = has_delete_permission = has_add_permission

    def get_urls(self) -> list[Any]:
        name = f"penstock_{self.opts.model_name}_changelist"
        return [path("", self.admin_site.admin_view(self.changelist_view), name=name)]

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        self._check(request)
        chosen = {name: value for name in self.filters if (value := request.GET.get(name, "").strip())}
        found: Page[Listed] = Page([], None)
        try:
            with project.store() as store:
                found = self.page(store, chosen, request.GET.get("after") or None)
        except Error as exc:
            messages.error(request, str(exc))
        following = urlencode({**chosen, "after": found.after}) if found.after else ""
        context = {
            "title": str(self.opts.verbose_name_plural).capitalize(),
            "columns": self.columns,
            "rows": found.items,
            "filters": [(name, chosen.get(name, "")) for name in self.filters],
            "following": following,
            "is_first": "after" not in request.GET,
            "decisions": self.decisions(request),
        }
        return self._answer(request, "list", context)

    def page(self, store: Store, chosen: dict[str, Any], after: str | None) -> Page[Listed]:
        """Return a page of the filtered list."""
        raise NotImplementedError

    def decisions(self, request: HttpRequest) -> list[str]:
        """Return the decisions that the user may make on listed rows."""
        return []

    def _check(self, request: HttpRequest) -> None:
        if not self.has_view_permission(request):
            raise PermissionDenied

    def _answer(self, request: HttpRequest, name: str, context: dict[str, Any]) -> HttpResponse:
        around = {**self.admin_site.each_context(request), "opts": self.opts}
        return TemplateResponse(request, f"penstock/{name}.html", around | context)

    @property
    def _address(self) -> str:
        return str(reverse(f"admin:penstock_{self.opts.model_name}_changelist"))


@admin.register(DeadList)
class DeadLettersAdmin(_Listing):
    """Dead letters: read, requeued, discarded."""

    permission = "dead_letters"
    filters = ("group", "topic", "type", "key", "id")
    columns = ("died", "group", "record", "type", "key", "failures", "reason", "holds its key")

    def get_urls(self) -> list[Any]:
        """Return the URLs of the list, of one letter, and of decisions."""
        view = self.admin_site.admin_view
        return [
            *super().get_urls(),
            path("letter/", view(self.letter_view), name="penstock_deadlist_letter"),
            path("decide/", view(self.decide_view), name="penstock_deadlist_decide"),
        ]

    def page(self, store: Store, chosen: dict[str, Any], after: str | None) -> Page[Listed]:
        found = dead.dead_letters(store, **chosen, after=after, limit=PAGE_ROWS)
        return Page(listed_letters(found.items), found.after)

    def decisions(self, request: HttpRequest) -> list[str]:
        return [each for each in _DECISIONS if request.user.has_perm(f"penstock.{each}_dead_letters")]

    def letter_view(self, request: HttpRequest) -> HttpResponse:
        """Show one dead letter, with its record."""
        self._check(request)
        given = request.GET
        try:
            place = given["group"], given["topic"], int(given["partition"]), int(given["offset"])
        except (KeyError, ValueError) as exc:
            raise BadRequest("a letter needs a group, a topic, a partition and an offset") from exc
        try:
            with project.store() as store:
                found = dead.show(store, *place)
        except Error as exc:
            messages.error(request, str(exc))
            return HttpResponseRedirect(self._address)
        context = {"title": f"Dead letter {found.letter.id}", "fields": shown_record(found)}
        return self._answer(request, "letter", context)

    def decide_view(self, request: HttpRequest) -> HttpResponse:
        """Ask for confirmation to requeue or discard the ticked letters, then do it."""
        self._check(request)
        decision, back = request.POST.get("decision", ""), f"{self._address}?{request.POST.get('back', '')}"
        if decision not in _DECISIONS:
            raise BadRequest(f"the decision must be {' or '.join(_DECISIONS)}")
        if decision not in self.decisions(request):
            raise PermissionDenied
        ticked = request.POST.getlist("letter")
        if len(ticked) > PAGE_ROWS:
            raise BadRequest(f"at most {PAGE_ROWS} letters at a time; use `penstock dead` for more")
        letters = [_selection(each) for each in ticked]
        if not letters:
            messages.warning(request, "No dead letter was ticked.")
        elif request.POST.get("confirmed") != "yes":
            rows = list(zip(ticked, letters, strict=True))
            context = {"title": f"{decision.capitalize()} {len(letters)} dead letters?", "rows": rows}
            chosen = {"decision": decision, "back": request.POST.get("back", "")}
            return self._answer(request, "decide", context | chosen)
        else:
            self._decide(request, decision, letters)
        return HttpResponseRedirect(back)

    def _decide(self, request: HttpRequest, decision: str, letters: list[dead.DeadSelection]) -> None:
        count = out_of_order = 0
        try:
            with project.store() as store:
                for each in letters:
                    done = _DECISIONS[decision](store, each, actor=request.user.get_username())
                    count, out_of_order = count + done.count, out_of_order + done.out_of_order
        except Error as exc:
            messages.error(request, str(exc))
        late = f", {out_of_order} of them out of order: their keys had continued" if out_of_order else ""
        done_word = "requeued" if decision == "requeue" else "discarded"
        messages.info(request, f"{count} of {len(letters)} dead letters {done_word}{late}.")


@admin.register(LaneList)
class LanesAdmin(_Listing):
    """Waiting lanes."""

    permission = "lanes"
    filters = ("group", "topic", "key")
    columns = ("group", "topic", "partition", "key", "state", "until", "failures", "waiting", "reason")

    def page(self, store: Store, chosen: dict[str, Any], after: str | None) -> Page[Listed]:
        found = lanes.lanes(store, **chosen, after=after, limit=PAGE_ROWS)
        return Page(listed_lanes(found.items), found.after)


@admin.register(GroupList)
class GroupsAdmin(_Listing):
    """Groups."""

    permission = "groups"
    columns = ("group", "kind", "topics", "lag", "oldest unread", "members", "paused", "", "")

    def page(self, store: Store, chosen: dict[str, Any], after: str | None) -> Page[Listed]:
        found = groups.groups(store, after=after, limit=PAGE_ROWS, counted=False)
        return Page(listed_groups(found.items), found.after)


def _selection(ticked: str) -> dead.DeadSelection:
    try:
        group, topic, id = msgspec.json.decode(ticked, type=tuple[str, str, str])
    except msgspec.MsgspecError as exc:
        raise BadRequest("a letter is identified by its group, topic and id") from exc
    return dead.DeadSelection(group=group, topic=topic, id=id)
