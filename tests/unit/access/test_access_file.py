"""The access file: what it may say, what is refused, and that a refusal quotes no secret."""

import os
import re
from pathlib import Path

import pytest

from penstock.access import watch as watching
from penstock.access.access import Access
from penstock.access.access_file import AccessFile, refuse_readable
from penstock.access.password import hash_password, hash_token, parse_password_hash
from penstock.access.policy import AccessPolicy
from penstock.access.watch import AccessWatch
from penstock.errors import AccessError, InvalidAccessFile, InvalidInput, InvalidRule

CANARY = "canary-7f3a-secret"


def load(tmp_path: Path, text: str) -> AccessPolicy:
    path = tmp_path / "access.toml"
    path.write_text(text)
    return AccessFile(path).load()


def test_rules_have_their_lines_whatever_the_line_ends_are(tmp_path: Path) -> None:
    path = tmp_path / "access.toml"
    path.write_bytes(b'# first\r\nrules = """\r\nallow a read topic x # why\r\n\r\ndeny b * *\r\n"""\r\n')
    assert [each.place.rpartition(":")[2] for each in AccessFile(path).load().rules] == ["3", "5"]


def test_who_shows_nothing_may_ask_only_if_nobody_else_is_named(tmp_path: Path) -> None:
    users = f'[users.ana]\npassword = "{hash_password(CANARY)}"\n'
    assert load(tmp_path, 'rules = ""').admits_anonymous
    assert not load(tmp_path, f'rules = ""\n{users}').admits_anonymous
    assert load(tmp_path, f'rules = ""\nanonymous = true\n{users}').admits_anonymous


def test_a_limit_says_whether_it_is_shared(tmp_path: Path) -> None:
    limits = '[[limits]]\nprincipal = "team-a/*"\nbytes_per_second = 5\n'
    found = load(tmp_path, f'rules = ""\n{limits}shared = true\n{limits}').limits
    assert [(each.principal, each.shared) for each in found] == [("team-a/*", True), ("team-a/*", False)]


JWT = 'rules = ""\n[jwt]\nalgorithm = "RS256"\naudience = "a"\n'
WRONG = {
    "no rules": "",
    "a rule that is none": 'rules = "allow ana"',
    "an unknown key": 'rules = ""\nuser = 1',
    "rules as a list": 'rules = ["allow a read topic x"]',
    "a backslash in a rule": r"rules = 'allow a read topic x\y'",
    "a password as it is": f'rules = ""\n[users.ana]\npassword = "{CANARY}"',
    "a user without one": 'rules = ""\n[users.ana]',
    "a name with a space": f'rules = ""\n[users."{CANARY} x"]',
    "the name of nobody": 'rules = ""\n[users.anonymous]',
    "a token as it is": f'rules = ""\n[tokens.bot]\nhash = "{CANARY}"',
    "no TOML": f'rules = ""\nx = {CANARY}',
    "two ways to a key": JWT + 'jwks = "x"\nsecret_file = "y"',
    "an algorithm that is none": 'rules = ""\n[jwt]\nalgorithm = "none"\naudience = "a"\njwks = "x"',
    "no audience": 'rules = ""\n[jwt]\nalgorithm = "RS256"\njwks = "x"',
    "keys that are not there": 'rules = ""\n[jwt]\nalgorithm = "RS256"\naudience = "a"\njwks = "gone"',
    "a leeway of an hour": JWT + 'jwks = "x"\nleeway_seconds = 3600',
    "a limit below zero": 'rules = ""\n[[limits]]\nbytes_per_second = -1',
    "a limit shared by a word": 'rules = ""\n[[limits]]\nshared = "yes"',
    "a field that is none": 'rules = ""\n[certificates]\nfield = "serial"',
}


@pytest.mark.parametrize("text", WRONG.values(), ids=list(WRONG))
def test_what_is_wrong_is_refused_with_the_file_and_without_a_secret(text: str, tmp_path: Path) -> None:
    with pytest.raises(AccessError) as caught:
        load(tmp_path, text)
    assert isinstance(caught.value, InvalidAccessFile | InvalidRule)
    assert str(tmp_path) in str(caught.value)
    assert f"{CANARY}'" not in str(caught.value)


@pytest.mark.parametrize(
    ("secret", "mode", "wrong"), [("short", 0o600, "bytes"), ("x" * 40, 0o644, "everybody"), ("x" * 40, 0o600, "")]
)
def test_a_shared_secret_is_long_and_its_owners_own(secret: str, mode: int, wrong: str, tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_text(secret)
    os.chmod(path, mode)
    text = 'rules = ""\n[jwt]\nalgorithm = "HS256"\naudience = "a"\nsecret_file = "secret"'
    if wrong:
        with pytest.raises(InvalidAccessFile, match=wrong):
            load(tmp_path, text)
    else:
        assert load(tmp_path, text).jwt is not None


def test_a_file_cut_at_any_line_opens_no_door(tmp_path: Path) -> None:
    """Written from its start, as editors do: whatever part is there denies, or is refused."""
    whole = f'''[users.ana]
password = "{hash_password(CANARY)}"
[tokens.bot]
hash = "{hash_token(CANARY + "0123456789")}"
'''
    whole = f'rules = """\nallow ana read topic x\ndeny * write topic *\n"""\n{whole}'
    lines = whole.splitlines(keepends=True)
    for count in range(len(lines)):
        try:
            policy = load(tmp_path, "".join(lines[:count]))
        except AccessError:
            continue
        assert len(policy.rules) == 2


def test_a_password_hash_reads_as_it_was_written_and_none_is_too_costly() -> None:
    made = hash_password(CANARY)
    assert parse_password_hash(str(made)) == made
    assert made.fits(CANARY)
    assert not made.fits(CANARY + "x")
    assert parse_password_hash(str(made).replace("ln=14", "ln=20").replace("r=8", "r=32")) is None
    for wrong in ("", "x" * 1025):
        with pytest.raises(InvalidInput):
            hash_password(wrong)
    with pytest.raises(InvalidInput):
        hash_token("short")


def test_a_file_that_is_being_written_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of it is a file without users: everybody would be let in, and everybody's connection end."""
    path, access, looks = tmp_path / "access.toml", Access(), watching._contents
    users = f'[tokens.bot]\nhash = "{hash_token("canary-7f3a-token-0123456789")}"\n'
    path.write_text(f'rules = ""\n{users}')
    watch = AccessWatch(access, path=path)
    watch.load()
    path.write_text('rules = ""\n# ')
    seen: list[int] = []

    def written_meanwhile(paths: list[Path]) -> dict[Path, bytes]:
        if seen:
            path.write_text(f'rules = ""\n# changed\n{users}')
        seen.append(1)
        return looks(paths)

    monkeypatch.setattr(watching, "_contents", written_meanwhile)
    versions: list[bool] = []
    access.watch(lambda: versions.append(access.admits_anonymous))
    watch.look()
    assert versions == [False]


def test_the_remedy_for_a_key_that_all_may_read_can_be_pasted(tmp_path: Path) -> None:
    key = tmp_path / "my certs" / "server.key"
    key.parent.mkdir()
    key.touch()
    key.chmod(0o604)
    with pytest.raises(InvalidAccessFile, match=re.escape(f"run: chmod o-rw '{key}'")):
        refuse_readable(key)
