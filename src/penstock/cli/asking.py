"""How commands ask before they change something: only a person at a terminal is asked."""

import sys

import click


def confirm(question: str, *, as_json: bool = False, instead: str = "--yes") -> None:
    """Ask, and leave unless the answer is yes. Raises UsageError where nobody can answer."""
    _check_somebody_is_there(question, as_json, instead)
    click.confirm(question, abort=True, err=True)


def ask_for(word: str, question: str, *, as_json: bool = False) -> None:
    """Ask for a word, and leave unless it is typed. Raises UsageError where nobody can answer."""
    _check_somebody_is_there(question, as_json, "--yes")
    if click.prompt(question, default="", show_default=False, err=True) != word:
        raise click.Abort


def is_terminal() -> bool:
    """Return whether a person can answer."""
    return sys.stdin is not None and sys.stdin.isatty()


def _check_somebody_is_there(question: str, as_json: bool, instead: str) -> None:
    if as_json:
        raise click.UsageError(f"with --json nobody is asked ({question}); use {instead}")
    if not is_terminal():
        raise click.UsageError(f"there is no terminal to ask at ({question}); use {instead}")
