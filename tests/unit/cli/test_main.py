"""The command line as a whole: version, help, wrong words, and errors in one sentence."""

import subprocess
from importlib import metadata
from pathlib import Path

import click
import pytest

from penstock import cli
from penstock.cli import COMMANDS, group, main
from penstock.errors import StoreFull, StoreLocked, StoreUnreachable, UnknownTopic
from tests.unit.cli.program import penstock


def left(args: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    """Run the command line here; return its exit code and what it printed."""
    with pytest.raises(SystemExit) as caught:
        main(args)
    printed = capsys.readouterr()
    code = caught.value.code
    return code if isinstance(code, int) else 0, printed.out, printed.err


def test_the_version_is_that_of_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = left(["--version"], capsys)
    assert (code, out.strip()) == (0, f"penstock, version {metadata.version('penstock-outbox')}")


def test_the_program_runs_by_itself() -> None:
    done = subprocess.run(penstock("--version"), capture_output=True, text=True, check=True)
    assert metadata.version("penstock-outbox") in done.stdout
    assert done.stderr == ""


@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_help_lists_every_command_in_a_line(flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = left([flag], capsys)
    assert code == 0
    for name, line in COMMANDS.items():
        assert name in out
        assert line.split()[0] in out


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_can_be_imported_and_has_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = left([name, "--help"], capsys)
    assert code == 0
    assert f"penstock {name}" in out
    command = group.get_command(click.Context(group), name)
    assert command is not None
    assert command.name == name


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["no-such"], "No such command 'no-such'"),
        (["--no-such"], "No such option"),
        (["migrate"], "--url"),
        (["migrate", "--url"], "--url"),
        (["migrate", "--url", "sqlite:///x.db", "extra"], "extra"),
        (["demo", "--orders", "many"], "--orders"),
        (["demo", "--orders", "0"], "--orders"),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, list) else "",
)
def test_wrong_words_are_a_usage_error(
    args: list[str], words: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    code, out, err = left(args, capsys)
    assert (code, out) == (2, "")
    assert words in err
    assert list(tmp_path.iterdir()) == []


def test_nothing_said_shows_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = left([], capsys)
    assert code in (0, 2)  # click has changed its mind on whether that is an error
    assert "Commands" in out + err


@pytest.mark.parametrize(
    ("error", "wanted", "words"),
    [
        (UnknownTopic("t"), 1, "error: there is no topic 't'; `penstock topics list` shows"),
        (StoreLocked("x.db"), 3, "error: the store x.db is locked: another process has kept a transaction"),
        (StoreFull("x.db"), 1, "error: no space left for x.db"),
        (StoreUnreachable("x.db", "gone"), 3, "error: the store x.db cannot be reached: gone\n"),
        (PermissionError(13, "Permission denied", "x"), 1, "error: PermissionError: [Errno 13]"),
        (ValueError("first line\nsecond line"), 1, "error: ValueError: first line; set PENSTOCK_TRACEBACK=1"),
    ],
    ids=lambda each: type(each).__name__,
)
def test_an_error_is_one_sentence_and_an_exit_code(
    error: Exception, wanted: int, words: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*args: object, **options: object) -> None:
        raise error

    monkeypatch.setattr(cli.group, "main", failing)
    code, out, err = left([], capsys)
    assert (code, out) == (wanted, "")
    assert err.startswith(words)
    assert err.count("\n") == 1


@pytest.mark.parametrize("error", [KeyboardInterrupt(), click.Abort()], ids=repr)
def test_ctrl_c_is_no_error_of_ours(
    error: BaseException, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*args: object, **options: object) -> None:
        raise error

    monkeypatch.setattr(cli.group, "main", interrupted)
    assert left([], capsys) == (130, "", "stopped\n")


def test_the_trace_can_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_TRACEBACK", "1")
    with pytest.raises(StoreUnreachable):
        main(["migrate", "--url", "sqlite:////no/such/folder/x.db"])
