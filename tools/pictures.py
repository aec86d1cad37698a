"""Photographs the console for the documentation: `python -m tools.pictures`, into docs/images.

A shop with three workers is started, one of them is killed while the overview is looked at, and pages are
photographed in light and dark. Needs Playwright and a Chromium of the system.
"""

import os
import random
import shutil
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Thread
from typing import Any

from playwright.sync_api import sync_playwright

from penstock import Outbox
from tools.picture_shop import shop

IMAGES = Path(__file__).parent.parent / "docs" / "images"
SECONDS = 55  # that the overview is looked at before it is photographed
PAGES = {
    "overview": "",
    "partitions": "partitions?group=mailer",
    "topic": "topic?name=events",
    "group": "group?name=mailer",
    "key": "key?key=o-97",
    "failures": "failures",
}
_HASTE = {"PENSTOCK_CLUSTER_HEARTBEAT_INTERVAL": "0.5", "PENSTOCK_CLUSTER_LEASE_TTL": "4"}


def main() -> None:
    """Start everything, take the pictures, end everything."""
    IMAGES.mkdir(exist_ok=True)
    with TemporaryDirectory() as folder:
        url, stop = f"sqlite:///{folder}/shop.db", Event()
        outbox = shop(url)
        outbox.migrate()
        publisher = Thread(target=_publish, args=(outbox, stop))
        publisher.start()
        command = [sys.executable, "-m", "tools.picture_shop", url]
        workers = [subprocess.Popen(command, env={**os.environ, **_HASTE}, stderr=subprocess.DEVNULL) for _ in "123"]
        serving = "from penstock.cli import main; main()"
        shown = ["console", "--url", url, "--listen", "127.0.0.1:0", "--allow-actions"]
        console = subprocess.Popen(
            [sys.executable, "-c", serving, *shown],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PENSTOCK_CONSOLE_TRACE_URL": "https://jaeger.example/trace/{trace_id}"},
        )
        try:
            assert console.stdout is not None
            address, token = (console.stdout.readline().rpartition(" ")[2].strip() for _ in "12")
            _take(address, token, workers[0])
        finally:
            stop.set()
            publisher.join()
            started: list[subprocess.Popen[Any]] = [*workers, console]
            for process in started:
                process.kill()
                process.wait()
            outbox.close()


def _take(address: str, token: str, victim: "subprocess.Popen[bytes]") -> None:
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        size = {"width": 1280, "height": 800}
        pages = {
            theme: browser.new_context(viewport=size, color_scheme=theme).new_page()  # type: ignore[arg-type]
            for theme in ("light", "dark")
        }
        for page in pages.values():
            page.goto(address)
        pages["light"].wait_for_timeout(SECONDS * 500)
        victim.kill()
        pages["light"].wait_for_timeout(SECONDS * 500)
        for theme, page in pages.items():
            for name, path in PAGES.items():
                if name != "overview":
                    page.goto(f"{address}{path}")
                page.screenshot(path=IMAGES / f"console-{name}-{theme}.png")
            _publishing(page, address, token)
            page.screenshot(path=IMAGES / f"console-publish-{theme}.png")
        browser.close()


def _publishing(page: Any, address: str, token: str) -> None:
    """Open the form that publishes a record."""
    page.goto(f"{address}unlock")
    page.fill("input[name=token]", token)
    page.click("main button")
    page.goto(f"{address}topic?name=events")
    page.click(".publish summary")
    page.fill(".publish [name=key]", "o-97")
    page.fill(".publish [name=type]", "order.corrected")
    page.fill(".publish textarea", '{"order": "o-97", "customer": "grace", "cents": 3900}')


def _publish(outbox: Outbox, stop: Event) -> None:
    chance, number = random.Random(3), 0
    while not stop.wait(chance.choice([0.02, 0.05, 0.1, 0.25])):
        with outbox.transaction() as conn:
            for _ in range(chance.randint(1, 8)):
                number += 1
                order = {"order": f"o-{number}", "customer": chance.choice(["ada", "grace"]), "cents": 4200}
                trace = {"traceparent": f"00-{chance.getrandbits(128):032x}-{chance.getrandbits(64):016x}-01"}
                outbox.publish(conn, "order.placed", order, key=f"o-{number % 400}", headers=trace)
                outbox.publish(conn, "payment.taken", {"order": number}, key=f"o-{number % 400}")
            if number % 10 == 0:
                later = timedelta(minutes=chance.randint(5, 600))
                outbox.publish(conn, "order.remind", {}, key=f"o-{number}", at=later)


if __name__ == "__main__":
    main()
