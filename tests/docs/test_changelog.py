"""The notes in changes/ can be folded into the changelog, today as on the day of a release."""

from pathlib import Path

import pytest

from tests.docs.pages import PROJECT
from tools.changelog import MARK, Refused, fold, main, read_notes


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Give a small project with two notes and one earlier release."""
    (tmp_path / "pyproject.toml").write_text('[project]\nversion = "0.2.0"\n', "utf-8")
    (tmp_path / "CHANGELOG.md").write_text(f"# Changelog\n\n{MARK}\n\n## 0.1.0\n\n### Added\n\nAll.\n", "utf-8")
    (tmp_path / "changes").mkdir()
    (tmp_path / "changes" / "README.md").write_text("How to write a note.\n", "utf-8")
    a_note(tmp_path, "0007-order.md", "# fixed\n\nOrder is kept.\n")
    a_note(tmp_path, "0008-topics.md", "# added\n\nTopics.\n")
    return tmp_path


def a_note(project: Path, name: str, text: str) -> None:
    (project / "changes" / name).write_text(text, "utf-8")


def test_a_release_stands_in_front_of_the_others_by_kind(project: Path) -> None:
    assert main(["0.2.0"], project) == 0
    assert (project / "CHANGELOG.md").read_text("utf-8") == (
        f"# Changelog\n\n{MARK}\n\n## 0.2.0\n\n### Added\n\nTopics.\n\n### Fixed\n\nOrder is kept.\n\n"
        "## 0.1.0\n\n### Added\n\nAll.\n"
    )


def test_folded_notes_are_removed_and_their_explanation_stays(project: Path) -> None:
    main(["0.2.0"], project)
    assert [path.name for path in (project / "changes").iterdir()] == ["README.md"]


@pytest.mark.parametrize(
    ("version", "note", "text", "words"),
    [
        ("0.3.0", "", "", "set it to 0.3.0 first"),
        ("0.2.0", "0009-x.md", "Text.\n", "must begin with"),
        ("0.2.0", "0009-x.md", "# new\n\nText.\n", "must begin with"),
        ("0.2.0", "0009-x.md", "# added\n\n", "says nothing"),
        ("0.2.0", "0009-x.md", "# added\n\nText.\n\n# fixed\n\nText.\n", "second heading"),
        ("0.2.0", "0008-again.md", "# added\n\nText.\n", "has the number of"),
        ("0.2.0", "nine.md", "# added\n\nText.\n", "must be called"),
    ],
)
def test_a_refusal_says_why_and_writes_nothing(
    version: str, note: str, text: str, words: str, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = (project / "CHANGELOG.md").read_text("utf-8")
    if note:
        a_note(project, note, text)
    assert main([version], project) == 1
    assert words in capsys.readouterr().out
    assert (project / "CHANGELOG.md").read_text("utf-8") == before
    assert (project / "changes" / "0007-order.md").exists()


@pytest.mark.parametrize(
    ("changelog", "version", "words"),
    [
        (f"{MARK}\n\n## 0.2.0\n", "0.2.0", "already"),
        (f"{MARK}\n", "0.2", "no version"),
        ("# Changelog\n", "0.2.0", "lost its line"),
    ],
)
def test_a_changelog_that_cannot_take_the_release_is_refused(
    changelog: str, version: str, words: str, project: Path
) -> None:
    with pytest.raises(Refused, match=words):
        fold(changelog, version, read_notes(project / "changes"))


def test_a_release_without_notes_is_refused() -> None:
    with pytest.raises(Refused, match="nothing to release"):
        fold(MARK, "0.2.0", [])


def test_the_real_notes_are_in_form_and_the_real_changelog_can_take_them() -> None:
    notes = read_notes(PROJECT / "changes")
    changelog = (PROJECT / "CHANGELOG.md").read_text("utf-8")
    assert MARK in changelog
    for note in notes:
        assert note.text in fold(changelog, "99.0.0", notes)


def test_wrong_words_on_the_command_line_show_the_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 2
    assert "usage" in capsys.readouterr().out
