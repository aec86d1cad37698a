"""Each shop, run as its page says: its commands, requests, a worker killed in the middle, sums at the end.

The install line is checked with all others in `tests/compat/test_install_lines.py`; here the packages of this
environment are used.
"""

import json
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from tests.crash.waiting import wait_until
from tests.docs.pages import PROJECT
from tests.examples.program import Program, lines_of

pytestmark = pytest.mark.slow

CUSTOMERS = [f"c-{number}" for number in range(5)]
ORDERS = 120


@dataclass(frozen=True)
class Shop:
    """How an example is run: its commands as they stand on its page, and its server on a free port."""

    folder: str
    migrate: str
    serve: str
    worker: str
    on_free_port: str
    ready: str = r"http://127\.0\.0\.1:(\d+)"


SHOPS = {
    "fastapi_shop": Shop(
        "fastapi_shop",
        "python shop.py",
        "uvicorn shop:app --port 8000",
        "penstock worker shop:outbox",
        "uvicorn shop:app --port 0",
    ),
    "django_shop": Shop(
        "django_shop",
        "python manage.py migrate",
        "python manage.py runserver 8000",
        "python manage.py penstock worker",
        "python manage.py runserver --noreload 0",
    ),
}


@pytest.fixture(params=["sqlite", "postgres"])
def environment(request: pytest.FixtureRequest, tmp_path: Path, brisk: None) -> dict[str, str]:
    """Give the variables a user sets: none for SQLite, the address for PostgreSQL."""
    if request.param == "sqlite":
        return {}
    return {"DATABASE_URL": request.getfixturevalue("postgres_url")}


@pytest.fixture(params=SHOPS)
def shop(request: pytest.FixtureRequest, tmp_path: Path) -> Shop:
    """Give an example; its files are in a folder `shop` of the test's own."""
    chosen = SHOPS[request.param]
    shutil.copytree(
        PROJECT / "examples" / chosen.folder, tmp_path / "shop", ignore=shutil.ignore_patterns("__pycache__", "*.db*")
    )
    return chosen


@pytest.fixture
def started() -> Iterator[ExitStack]:
    """Give a stack for programs that must not outlive the test."""
    with ExitStack() as stack:
        yield stack


def call(address: str, body: object = None) -> tuple[int, object]:
    """Return status and JSON of an answer."""
    data = None if body is None else json.dumps(body).encode()
    request = Request(address, data, {"content-type": "application/json"})
    try:
        with urlopen(request, timeout=60) as answer:
            return answer.status, json.load(answer)
    except HTTPError as error:
        with error:
            return error.code, json.load(error)


@pytest.mark.parametrize("name", SHOPS)
def test_the_page_shows_the_commands_that_are_tested(name: str) -> None:
    shown, used = lines_of(name), SHOPS[name]
    assert [line for line in shown if line in (used.migrate, used.serve, used.worker)] == [
        used.migrate,
        used.serve,
        used.worker,
    ]


@pytest.mark.parametrize("name", SHOPS)
def test_an_example_is_short(name: str) -> None:
    files = [*(PROJECT / "examples" / name).rglob("*.py")]
    assert files
    assert sum(len(path.read_text("utf-8").splitlines()) for path in files) <= 150


def test_each_order_is_in_the_projection_once_though_the_worker_is_killed(
    shop: Shop, environment: dict[str, str], tmp_path: Path, started: ExitStack
) -> None:
    folder = tmp_path / "shop"

    def start(line: str) -> Program:
        program = Program(line, folder, environment)
        started.callback(program.stop)
        return program

    start(shop.migrate).finish()
    server = start(shop.on_free_port)
    address = f"http://127.0.0.1:{server.wait_for(shop.ready)[1]}"

    def handled() -> int:
        _, found = call(f"{address}/spending")
        assert isinstance(found, dict)
        return sum(one["orders"] for one in found.values())

    wanted = {name: {"orders": 0, "cents": 0} for name in CUSTOMERS}

    def place(number: int) -> None:
        customer, cents = CUSTOMERS[number % len(CUSTOMERS)], 100 + number
        status, answer = call(f"{address}/orders", {"id": f"o-{number}", "customer": customer, "cents": cents})
        assert status == 201, answer
        wanted[customer]["orders"] += 1
        wanted[customer]["cents"] += cents

    for number in range(ORDERS // 2):
        place(number)
    worker = start(shop.worker)
    wait_until(handled, "the worker has handled something")
    worker.kill()  # with a backlog behind what it has in hand
    for number in range(ORDERS // 2, ORDERS):
        place(number)
    assert call(f"{address}/orders", {"id": "o-0", "customer": "c-0", "cents": 1})[0] == 409
    assert call(f"{address}/orders", {"id": "o-x", "customer": "blocked", "cents": 1})[0] == 403

    start(shop.worker)
    wait_until(lambda: handled() >= ORDERS, "all orders are handled")
    assert call(f"{address}/spending") == (200, wanted)
