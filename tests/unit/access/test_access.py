"""Access: failures that pause, proofs that end, limits, the audit; all by a clock of ours."""

import hashlib
import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from penstock.access import rate_limits
from penstock.access.access import Access
from penstock.access.audit_trail import AuditTrail
from penstock.access.failures import Failures
from penstock.access.password import hash_password, token_digest
from penstock.access.policy import AccessPolicy, User
from penstock.access.principal import Peer, Principal
from penstock.access.rate_limits import RateLimit, RateLimiter
from penstock.access.resource import AccessRight, topic
from penstock.access.rule import parse_rule
from penstock.access.scram import scram_secret
from penstock.errors import NotAllowed, RateLimited, Unauthenticated
from penstock.testing.clock import FakeClock

TOKEN, PASSWORD = "canary-7f3a-token-0123456789", "canary-7f3a-password"
USERS = {"ana": User("ana", hash_password(PASSWORD))}
RULES = (parse_rule("allow ana write topic orders", "f:1"),)
POLICY = AccessPolicy(users=USERS, tokens={token_digest(TOKEN): "bot"}, rules=RULES, admits_anonymous=False)
AWAY = Peer("10.0.0.7", "http", is_private=False)


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_without_a_policy_everybody_may_do_everything() -> None:
    access = Access()
    access.check(access.of_nobody(), AccessRight.DELETE, topic("orders"))


def test_a_principal_may_what_its_rules_say() -> None:
    access = Access(POLICY)
    ana = access.authenticate_basic("ana", PASSWORD)
    access.check(ana, AccessRight.WRITE, topic("orders"))
    with pytest.raises(NotAllowed, match="ana may not read topic orders"):
        access.check(ana, AccessRight.READ, topic("orders"))
    with pytest.raises(Unauthenticated):
        access.of_nobody()


def test_a_secret_over_a_connection_that_others_hear_is_refused_also_when_it_is_known() -> None:
    access = Access(POLICY)
    for _ in range(2):
        with pytest.raises(Unauthenticated, match="not encrypted"):
            access.authenticate_bearer(TOKEN, AWAY)
        assert access.authenticate_bearer(TOKEN).name == "bot"


def test_failures_pause_a_name_at_an_address_and_nobody_else() -> None:
    clock = FakeClock()
    access, here, there = Access(POLICY, clock=clock), Peer("10.0.0.1"), Peer("10.0.0.2")
    for _ in range(5):
        with pytest.raises(Unauthenticated, match="wrong"):
            access.authenticate_basic("ana", "no", here)
    with pytest.raises(Unauthenticated, match="too many failures"):
        access.authenticate_basic("ana", PASSWORD, here)
    assert access.authenticate_basic("ana", PASSWORD, there).name == "ana"
    other = Access(POLICY, clock=clock)
    assert other.authenticate_basic("ana", PASSWORD, here).name == "ana"
    clock.advance(timedelta(seconds=61))
    assert access.authenticate_basic("ana", PASSWORD, here).name == "ana"


def test_who_fails_ever_again_is_never_listened_to_sooner() -> None:
    """The pause grows to its longest and stays there, however often it is tried."""
    clock = FakeClock()
    failures = Failures(clock)
    for _ in range(3000):
        failures.failed("10.0.0.1", "ana")
    with pytest.raises(Unauthenticated, match="too many failures"):
        failures.check("10.0.0.1", "ana")
    clock.advance(timedelta(seconds=59))
    with pytest.raises(Unauthenticated, match="too many failures"):
        failures.check("10.0.0.1", "ana")


def test_a_password_without_a_name_costs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would else be the one guess that nobody counts, each for the price of a hash."""
    monkeypatch.setattr(User, "fits", lambda *_: pytest.fail("a hash was made"))
    with pytest.raises(Unauthenticated, match="wrong"):
        Access(POLICY).authenticate_basic("", PASSWORD)


def test_what_one_address_has_shown_does_not_help_another_to_guess_it() -> None:
    access, here, there = Access(POLICY, clock=FakeClock()), Peer("10.0.0.1"), Peer("10.0.0.2")
    assert access.authenticate_basic("ana", PASSWORD, here).name == "ana"
    for _ in range(5):
        with pytest.raises(Unauthenticated, match="wrong"):
            access.authenticate_basic("ana", "no", there)
    with pytest.raises(Unauthenticated, match="too many failures"):
        access.authenticate_basic("ana", PASSWORD, there)
    assert access.authenticate_basic("ana", PASSWORD, here).name == "ana"


@pytest.mark.parametrize("with_scram", [False, True], ids=["passwords", "and scram alone"])
def test_a_name_takes_as_much_work_as_any_other(with_scram: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    ben = User("ben", None, {"SCRAM-SHA-256": scram_secret("SCRAM-SHA-256", PASSWORD)})
    access = Access(AccessPolicy(users=USERS | ({"ben": ben} if with_scram else {})))
    work: list[str] = []
    for name in ("scrypt", "pbkdf2_hmac"):
        does = getattr(hashlib, name)

        def counted(*args: Any, name: str = name, does: Any = does, **more: Any) -> Any:
            work.append(name)
            return does(*args, **more)

        monkeypatch.setattr(hashlib, name, counted)
    with pytest.raises(Unauthenticated):
        access.authenticate_basic("first", "no")  # somebody is made up, once
    done = []
    for name in ("ana", "nobody", *(["ben"] if with_scram else [])):
        work.clear()
        with pytest.raises(Unauthenticated, match="wrong"):
            access.authenticate_basic(name, "no")
        done.append(sorted(work))
    assert done == [["pbkdf2_hmac", "scrypt"] if with_scram else ["scrypt"]] * len(done)
    if with_scram:
        assert access.authenticate_basic("ben", PASSWORD).name == "ben"


def test_the_one_secret_of_a_door_is_sent_over_safe_connections_alone() -> None:
    access = Access(POLICY, clock=FakeClock())
    known = access.authenticate_secret("tinyq", "right", "right".__eq__, Peer("10.0.0.2", "tinyq"))
    assert access.holds(known)
    with pytest.raises(Unauthenticated, match="not encrypted"):
        access.authenticate_secret("tinyq", "right", "right".__eq__, AWAY)


class _PolicyThatIsSlow(AccessPolicy):
    """Lets something happen while it is put in force."""

    meanwhile: Callable[[], None]

    @property
    def credentials(self) -> frozenset[str]:
        self.meanwhile()
        return frozenset()


def test_of_two_changes_at_a_time_none_is_lost() -> None:
    access, stored = Access(POLICY), [parse_rule("deny ana write topic orders", "database")]
    other = Thread(target=lambda: access.install(stored=stored))
    new = _PolicyThatIsSlow(rules=RULES)

    def meanwhile() -> None:
        if not other.is_alive():
            other.start()
            other.join(0.2)  # it has to wait for us

    object.__setattr__(new, "meanwhile", meanwhile)
    access.install(new)
    other.join(10)
    assert access.rules == (*RULES, *stored)
    assert not access.admits_anonymous or access._force.policy is new


def test_a_change_of_rules_is_no_new_burst() -> None:
    clock = FakeClock()
    access = Access(AccessPolicy(limits=(RateLimit("ana", "*", bytes_per_second=100),)), clock=clock)
    access.admit(Principal("ana"), "orders", 150)
    access.install(stored=RULES)
    with pytest.raises(RateLimited):
        access.admit(Principal("ana"), "orders", 1)
    assert access.charge(Principal("ana"), "orders", 50, requests=0) == pytest.approx(1.0)


def test_what_was_shown_holds_until_it_is_gone_or_changed() -> None:
    clock = FakeClock()
    access = Access(POLICY, clock=clock)
    ana, bot = access.authenticate_basic("ana", PASSWORD), access.authenticate_bearer(TOKEN)
    assert access.holds(ana)
    changed = AccessPolicy(users={"ana": User("ana", hash_password(PASSWORD))}, tokens=POLICY.tokens)
    access.install(changed)
    assert not access.holds(ana)
    assert access.holds(bot)
    access.install(AccessPolicy())
    assert not access.holds(bot)
    lasting = Principal("ana", method="certificate", expires=clock.now_ms() / 1000 + 10)
    assert access.holds(lasting)
    clock.advance(timedelta(seconds=11))
    assert not access.holds(lasting)


def test_a_bucket_fills_again_and_is_each_ones_own() -> None:
    clock = FakeClock()
    limits = (RateLimit("ana", "orders*", bytes_per_second=100),)
    access = Access(AccessPolicy(limits=limits), clock=clock)
    ana, ben = Principal("ana"), Principal("ben")
    access.admit(ana, "orders", 150)
    with pytest.raises(RateLimited) as caught:
        access.admit(ana, "orders", 1)
    assert caught.value.seconds == pytest.approx(0.5)
    access.admit(ana, "orders-2", 1)
    access.admit(ben, "orders", 10_000)
    clock.advance(timedelta(seconds=0.6))
    access.admit(ana, "orders", 1)


TENANT = RateLimit("team-a/*", "*", bytes_per_second=100, shared=True)


def seconds_of(access: Access, name: str, of: str = "orders") -> float:
    """Return how long a principal has to wait."""
    return access.charge(Principal(name), of, 0, requests=0)


def test_the_principals_of_a_tenant_share_its_limit_over_all_topics() -> None:
    clock = FakeClock()
    access = Access(AccessPolicy(limits=(TENANT,)), clock=clock)
    access.admit(Principal("team-a/ana"), "orders", 150)
    for name, of in (("team-a/ben", "payroll"), ("team-a/ana", "orders"), ("team-a/new", "orders-2")):
        with pytest.raises(RateLimited):
            access.admit(Principal(name), of, 1)
        assert seconds_of(access, name, of) == pytest.approx(0.5)
    for name in ("team-b/ana", "team-a", "ana"):
        assert seconds_of(access, name) == 0
    clock.advance(timedelta(seconds=0.6))
    access.admit(Principal("team-a/ben"), "payroll", 1)


def test_a_limit_of_a_tenant_counts_beside_those_of_its_principals_and_of_parts_of_it() -> None:
    own = RateLimit("team-a/*", "*", bytes_per_second=10)
    part = RateLimit("team-a/batch-*", "*", bytes_per_second=50, shared=True)
    access = Access(AccessPolicy(limits=(TENANT, own, part)), clock=FakeClock())
    access.admit(Principal("team-a/ana"), "orders", 20)
    assert seconds_of(access, "team-a/ana") == pytest.approx(1.0)  # its own bucket
    assert seconds_of(access, "team-a/ben") == 0
    access.admit(Principal("team-a/batch-1"), "orders", 60)
    assert seconds_of(access, "team-a/batch-2") == pytest.approx(0.2)  # that of the part
    access.charge(Principal("team-a/ben"), "payroll", 120)
    assert seconds_of(access, "team-a/cleo") == pytest.approx(1.0)  # that of the tenant


def test_no_number_of_names_gives_a_tenant_a_new_burst(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rate_limits, "_MOST_BUCKETS", 10)
    own = RateLimit("*", "*", bytes_per_second=1_000_000)
    access = Access(AccessPolicy(limits=(own, TENANT)), clock=FakeClock())
    access.admit(Principal("team-a/ana"), "orders", 150)
    for number in range(100):
        access.charge(Principal("team-b/ana"), f"orders-{number}", 1)
    assert seconds_of(access, "team-a/ben") == pytest.approx(0.5)


def test_the_audit_tells_uses_and_the_same_refusals_once_a_minute(tmp_path: Path) -> None:
    clock, path = FakeClock(), tmp_path / "audit.jsonl"
    trail = AuditTrail(path, clock)
    access = Access(POLICY, trail=trail, clock=clock)
    ana = access.authenticate_basic("ana", PASSWORD)
    for _ in range(3):
        assert access.allowed(ana, AccessRight.WRITE, topic("orders"))
        assert not access.allowed(ana, AccessRight.READ, topic("pay\nroll"))
    assert not access.allowed(ana, AccessRight.READ, topic("wages"))
    clock.advance(timedelta(seconds=61))
    assert access.allowed(ana, AccessRight.WRITE, topic("orders"))
    trail.close()
    found = lines(path)
    refused = [(each["resource"], each.get("count")) for each in found if each["outcome"] == "refused"]
    assert refused == [("topic pay\nroll", None), ("topic wages", None), ("topic pay\nroll", 2)]
    assert [each["count"] for each in found if each["outcome"] == "allowed"] == [1, 3]
    assert "canary" not in path.read_text()
    assert oct(path.stat().st_mode & 0o777) == "0o600"


def test_a_list_of_made_up_names_fills_no_audit_file_and_is_counted(tmp_path: Path) -> None:
    clock, path = FakeClock(), tmp_path / "audit.jsonl"
    trail = AuditTrail(path, clock)
    access = Access(POLICY, trail=trail, clock=clock)
    for number in range(20_000):
        assert not access.allowed(Principal("ben"), AccessRight.READ, topic(f"{number}" + "x" * 500))
    trail.close()
    found = lines(path)
    assert sum(int(str(each.get("count", 1))) for each in found) == 20_000
    assert (found[-1]["resource"], found[-1]["count"]) == ("others", 19_900)
    assert path.stat().st_size < 100_000


def test_failed_logins_fill_no_audit_file_and_are_counted(tmp_path: Path) -> None:
    clock, path = FakeClock(), tmp_path / "audit.jsonl"
    trail = AuditTrail(path, clock)
    access = Access(POLICY, trail=trail, clock=clock)
    for number in range(3000):
        peer = Peer(f"2001:db8::{number:x}", "http")
        with pytest.raises(Unauthenticated):
            access.authenticate_bearer(f"canary-{number}", peer)
        with pytest.raises(Unauthenticated):
            access.authenticate_basic("ana", PASSWORD, peer._replace(is_private=False))
    clock.advance(timedelta(seconds=61))
    with pytest.raises(Unauthenticated):
        access.authenticate_bearer("canary", Peer("2001:db8::7", "http"))
    trail.close()
    found = [(each["method"], each["address"], each["principal"], each.get("count")) for each in lines(path)]
    first, network = "2001:db8::0", "2001:db8::/64"
    assert found[:2] == [("bearer", first, "", None), ("password", first, "ana", None)]
    assert ("bearer", network, "", 2999) in found
    assert sum(int(str(count or 1)) for *_, count in found) == 6001, "each is told or counted"
    assert len(found) < 10
    assert "canary" not in path.read_text()


def test_who_asks_never_waits_for_the_audit_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trail = AuditTrail(tmp_path / "audit.jsonl")
    monkeypatch.setattr("os.write", lambda *_: pytest.fail("it was written by who asks"))
    monkeypatch.setattr("os.stat", lambda *_, **__: pytest.fail("it was looked at by who asks"))
    for number in range(50_000):  # more than the buffer holds
        trail.write(event="access", resource=f"{number}" + "x" * 200)
    monkeypatch.undo()
    trail.close()
    written = (tmp_path / "audit.jsonl").stat().st_size
    assert 3 << 20 < written <= 4 << 20, "the buffer has no bound, or none was written"


def test_a_disk_that_fails_stops_nobody_and_is_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = tmp_path / "gone"
    trail = AuditTrail(folder / "audit.jsonl")
    access = Access(POLICY, trail=trail)
    for _ in range(3):
        assert access.authenticate_bearer(TOKEN).name == "bot"
        assert not access.allowed(Principal("ben"), AccessRight.READ, topic("orders"))
        trail.flush()
    assert sum("audit lines are lost" in each.message for each in caplog.records) == 1


def test_buckets_are_kept_by_as_much_of_a_name_as_a_topic_has() -> None:
    buckets = RateLimiter((RateLimit("*", "*", bytes_per_second=100),), FakeClock())
    buckets.charge("ana", "t" * 1_000_000, 1)
    assert max(len(topic) for _, topic in buckets._buckets) == 255
