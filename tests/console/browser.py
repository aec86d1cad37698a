"""A browser of this machine: Chromium as the system has it, driven by Playwright, without a screen."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
TIMEOUT_MS = 30_000


@dataclass
class Looking:
    """A page of a browser, and what it complained of: dialogs, errors of scripts, lines of its console."""

    page: Any
    complaints: list[str] = field(default_factory=list)

    def open(self, address: str) -> None:
        """Go to an address."""
        self.page.goto(address)


def program() -> str:
    """Return the browser; skips where there is none, and fails in CI."""
    found = next((path for each in PROGRAMS if (path := shutil.which(each))), None)
    if found is None:
        missing = f"no browser is installed ({', '.join(PROGRAMS)}); apt-get install chromium"
        if os.environ.get("CI") == "true":
            pytest.fail(missing)
        pytest.skip(missing)
    return found


@contextmanager
def browsing(**context: Any) -> Iterator[Looking]:
    """Give a page of a browser that is started for it; `context` as Playwright takes it."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program(), args=["--no-sandbox"])
        try:
            page = browser.new_context(**context).new_page()
            page.set_default_timeout(TIMEOUT_MS)
            looking = Looking(page)
            page.on("dialog", lambda each: _dismiss(looking, each))
            page.on("pageerror", lambda each: looking.complaints.append(f"error {each}"))
            page.on("console", lambda each: looking.complaints.append(f"{each.type} {each.text}"))
            page.on("request", lambda each: _note_foreign(looking, each.url))
            yield looking
        finally:
            browser.close()


def _dismiss(looking: Looking, dialog: Any) -> None:
    looking.complaints.append(f"dialog {dialog.message}")
    dialog.dismiss()


def _note_foreign(looking: Looking, url: str) -> None:
    if not url.startswith("http://127.0.0.1:"):
        looking.complaints.append(f"request {url}")
