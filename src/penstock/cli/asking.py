"""Confirmation before a change: only a person at a terminal is asked."""

import sys

import click


def confirm(question: str, *, as_json: bool = False, instead: str = "--yes") -> None:
    """Ask, and abort unless the answer is yes. Raises UsageError without a terminal."""
    _check_terminal(question, as_json, instead)
    click.confirm(question, abort=True, err=True)


def ask_for(word: str, question: str, *, as_json: bool = False) -> None:
    """Ask for a word, and abort unless it is typed. Raises UsageError without a terminal."""
    _check_terminal(question, as_json, "--yes")
    if click.prompt(question, default="", show_default=False, err=True) != word:
        raise click.Abort


def is_terminal() -> bool:
    """Return whether standard input is a terminal."""
    return sys.stdin is not None and sys.stdin.isatty()


def _check_terminal(question: str, as_json: bool, instead: str) -> None:
    if as_json:
        raise click.UsageError(f"--json cannot ask for confirmation ({question}); use {instead}")
    if not is_terminal():
        raise click.UsageError(f"no terminal to ask for confirmation ({question}); use {instead}")
