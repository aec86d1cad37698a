"""The sharing of domains: the member that holds the lock of a domain's row computes the owner of each row.

A `View` is the content of the rows at one moment; `changes` computes, without I/O, what to write, from a view that was
read under the domains' locks; any other is only a hint. They set `owner_wanted`; owner and epoch change when the owner
releases the row and the wanted owner takes it.

Lock order: domains, by name; then groups; then slots or cursors.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from penstock.database.contract import Rows
from penstock.database.database import Transaction

from .assignment import Owners, Participant, assign, may_hold
from .filters import Filter, succeed
from .serving import SLOTS, Domain, Present


@dataclass(frozen=True, slots=True)
class Held:
    """One row: its owner, and who should own it."""

    owner: str | None
    wanted: str | None

    def is_due(self, me: str, living: Collection[str]) -> bool:
        """Return whether a member should act: release a row it should not own, take one it should."""
        if self.owner == me:
            return self.wanted != me
        return self.wanted == me and self.owner not in living


@dataclass(frozen=True, slots=True)
class View:
    """The rows of some domains, the filters of their groups, and the living members."""

    members: Mapping[Domain, str]  # as stored: the members given a share the last time
    filters: Mapping[int, list[Filter]]
    rows: Mapping[Domain, dict[int, Held]]
    present: Sequence[Present]

    def due(self, me: str, living: Collection[str]) -> set[Domain]:
        """Return the domains in which a member should take or release something."""
        return {domain for domain, rows in self.rows.items() if any(held.is_due(me, living) for held in rows.values())}


@dataclass(slots=True)
class Changes:
    """The changes to write."""

    members: dict[Domain, str] = field(default_factory=dict)
    wanted: dict[Domain, Owners] = field(default_factory=dict)
    filters: dict[int, list[Filter]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.members or self.filters)


def touch(tx: Transaction, domain: Domain) -> None:
    """Raise a domain's version, so that its members look. Call it before locking its group or its rows."""
    tx.change("membership", "domain_touch", name=domain.name)


def lock(tx: Transaction, domains: Iterable[Domain], *, wait: bool) -> list[Domain]:
    """Lock domains; skip the domains that another member has locked, or wait for them."""
    by_name = {domain.name: domain for domain in domains}
    rows = tx.rows("membership", "domains_wait" if wait else "domains_lock", names=sorted(by_name))
    return [by_name[row[0]] for row in rows]


def read(tx: Transaction, domains: Collection[Domain], present: Sequence[Present], *, locked: bool) -> View:
    """Return the content of the rows; lock the groups if changes will be written from it."""
    by_name = {domain.name: domain for domain in domains}
    named = tx.rows("membership", "domains_read", names=sorted(by_name))
    groups = sorted({domain.group_id for domain in domains if domain != SLOTS})
    statement = "filters_lock" if locked else "filters_read"
    filters = tx.rows("membership", statement, groups=groups) if groups else []
    decoded = {row[0]: msgspec.json.decode(row[1], type=list[Filter]) for row in filters}
    return View({by_name[row[0]]: row[2] for row in named}, decoded, _rows(tx, domains), present)


def changes(view: View, *, gather_ms: int) -> Changes:
    """Return the changes to write: none when every row has the owner it should have."""
    found = Changes()
    by_joining = sorted(view.present, key=lambda each: (-each.age_ms, each.id))
    for group_id, stored in view.filters.items():
        filters = [each.serves.filter(group_id) for each in by_joining]
        following = succeed(stored, [each for each in filters if each is not None])
        if following != stored:
            found.filters[group_id] = following
    for domain, rows in view.rows.items():
        former = view.members.get(domain, "[]")
        sharing = _gathered(domain, _candidates(view, found, domain), rows, former, gather_ms)
        members, ids = _members_text(sharing), {each.id for each in sharing}
        if members == former and all(held.wanted in ids for held in rows.values()):
            continue
        wanted = _wanted(rows, sharing)
        if wanted or members != former:
            found.members[domain], found.wanted[domain] = members, wanted
    return found


def write(tx: Transaction, found: Changes) -> None:
    """Write changes that were computed under the domains' locks."""
    for group_id, filters in found.filters.items():
        text = msgspec.json.encode(filters).decode()
        tx.change("membership", "filters_write", group_id=group_id, filters=text)
    for domain, members in found.members.items():
        tx.change("membership", "domain_write", name=domain.name, members=members)
        wanted = found.wanted[domain]
        if wanted:
            owners = Rows(number=list(wanted), owner=list(wanted.values()))
            if domain == SLOTS:
                tx.change("membership", "slots_want", wanted=owners)
            else:
                ids = {"group_id": domain.group_id, "topic_id": domain.topic_id}
                tx.change("membership", "cursors_want", wanted=owners, **ids)


def _rows(tx: Transaction, domains: Collection[Domain]) -> dict[Domain, dict[int, Held]]:
    rows: dict[Domain, dict[int, Held]] = {domain: {} for domain in sorted(domains)}
    if SLOTS in rows:
        rows[SLOTS] = {row[0]: Held(row[1], row[2]) for row in tx.rows("membership", "slots_shared")}
    groups = [domain for domain in rows if domain != SLOTS]
    if groups:
        shared = Rows(group_id=[domain.group_id for domain in groups], topic_id=[domain.topic_id for domain in groups])
        for group_id, topic_id, partition, owner, wanted in tx.rows("membership", "cursors_shared", shared=shared):
            rows[Domain(group_id, topic_id)][partition] = Held(owner, wanted)
    return rows


def _candidates(view: View, found: Changes, domain: Domain) -> list[Present]:
    serving = [each for each in view.present if domain in each.serves.domains()]
    if domain == SLOTS:
        return serving
    filters = found.filters.get(domain.group_id) or view.filters.get(domain.group_id)
    return [each for each in serving if filters and each.serves.filter(domain.group_id) == filters[0]]


def _gathered(
    domain: Domain, candidates: list[Present], rows: Mapping[int, Held], former: str, gather_ms: int
) -> list[Participant]:
    """Return the members to count. Newcomers wait, unless rows lack an owner: joins together cost one change."""
    known = {row[0] for row in msgspec.json.decode(former, type=list[tuple[str, list[int] | None]])}
    counted = [each.share_in(domain) for each in candidates if each.id in known]
    newcomers = [each for each in candidates if each.id not in known]
    sharing = [each.share_in(domain) for each in candidates]
    waited = any(each.age_ms >= gather_ms for each in newcomers)
    if waited or not counted or _needed(newcomers, domain, counted, rows):
        return sharing
    return counted


def _needed(newcomers: Sequence[Present], domain: Domain, counted: list[Participant], rows: Mapping[int, Held]) -> bool:
    ids = {each.id for each in counted}
    orphans = [row for row, held in rows.items() if held.wanted not in ids]
    return any(may_hold(row, newcomer.share_in(domain), counted) for row in orphans for newcomer in newcomers)


def _wanted(rows: Mapping[int, Held], sharing: Sequence[Participant]) -> Owners:
    ids = {each.id for each in sharing}
    before = {row: _before(held, ids) for row, held in rows.items()}
    return {row: owner for row, owner in assign(before, sharing).items() if owner != rows[row].wanted}


def _before(held: Held, ids: Collection[str]) -> str | None:
    return next((each for each in (held.wanted, held.owner) if each in ids), None)


def _members_text(sharing: Iterable[Participant]) -> str:
    shares = sorted((each.id, None if each.pins is None else sorted(each.pins)) for each in sharing)
    return msgspec.json.encode(shares).decode()
