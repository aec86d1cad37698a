"""Django's models in the transaction of a handler, its admin, and the way back, in real projects."""

from pathlib import Path
from typing import Any

import pytest

from tests.conformance.django_project import Project, sound, wanting
from tests.services.slow import but_the_first

JOINING = "from tests.conformance.django_joining import main; main()"
ADMIN = "from tests.conformance.django_admin import main; main()"
ADMIN_SETTINGS: dict[str, Any] = {
    "INSTALLED_APPS": [
        "django.contrib.admin",
        "django.contrib.auth",
        "django.contrib.contenttypes",
        "django.contrib.messages",
        "django.contrib.sessions",
        "penstock.django",
        "shop",
    ],
    "MIDDLEWARE": [
        "django.contrib.sessions.middleware.SessionMiddleware",
        "django.middleware.csrf.CsrfViewMiddleware",
        "django.contrib.auth.middleware.AuthenticationMiddleware",
        "django.contrib.messages.middleware.MessageMiddleware",
    ],
    "TEMPLATES": [
        {
            "BACKEND": "django.template.backends.django.DjangoTemplates",
            "APP_DIRS": True,
            "OPTIONS": {
                "context_processors": [
                    "django.template.context_processors.request",
                    "django.contrib.auth.context_processors.auth",
                    "django.contrib.messages.context_processors.messages",
                ]
            },
        }
    ],
    "ROOT_URLCONF": "shop.urls",
    "STATIC_URL": "static/",
    "SESSION_ENGINE": "django.contrib.sessions.backends.signed_cookies",
}
URLS = """
from django.contrib import admin
from django.urls import path
urlpatterns = [path("admin/", admin.site.urls)]
"""

ENGINES = pytest.mark.parametrize("engine", but_the_first(["sqlite", "postgres"]))


@ENGINES
def test_models_join_the_transaction_of_a_handler(engine: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    project = Project(tmp_path / "project", request.getfixturevalue(f"{engine}_store"))
    databases = project.settings["DATABASES"]
    elsewhere = {"sqlite": str(tmp_path / "other.db"), "postgres": "postgres"}
    databases["other"] = {**databases["default"], "NAME": elsewhere[engine]}
    said = sound(project.manage("migrate", ["shell", "-c", JOINING]))
    assert said.count("\npassed ") == 6


@ENGINES
def test_the_admin_lists_and_decides(engine: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    project = Project(tmp_path / "project", request.getfixturevalue(f"{engine}_store"))
    project.settings |= ADMIN_SETTINGS
    (project.folder / "shop" / "urls.py").write_text(URLS, "utf-8")
    said = sound(project.manage("check", "migrate", "makemigrations penstock --check", ["shell", "-c", ADMIN]))
    assert said.count("\npassed ") == 4


PUBLISH = """
from django.db import connection, transaction
from shop.events import outbox
with transaction.atomic():
    outbox.publish(connection, "order.placed", {}, key="1")
"""
WITH_LEAVE = "from django.conf import settings; settings.PENSTOCK_ALLOW_DROP = True; "
ZERO = "from django.core.management import call_command; call_command('migrate', 'penstock', 'zero')"
AT_WORK = """
import threading
from django.core.management import call_command
from penstock.errors import StoreBusy
from shop.events import outbox

begun, stop = threading.Event(), threading.Event()

@outbox.handler("order.*", group="busy", id="busy")
def busy(record):
    begun.set()
    stop.wait(60)

def work():
    try:
        outbox.run(until=stop)
    finally:
        begun.set()

worker = threading.Thread(target=work)
worker.start()
begun.wait(60)
try:
    call_command("migrate", "penstock", "zero")
except StoreBusy as exc:
    print("refused:", exc)
finally:
    stop.set()
    worker.join()
"""


@ENGINES
def test_migrate_zero_drops_the_tables_when_nothing_is_lost(
    engine: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    address = request.getfixturevalue(f"{engine}_store")
    project = Project(tmp_path / "project", address)
    said = project.manage(
        "migrate",
        "migrate penstock zero",  # empty
        "migrate",
        ["shell", "-c", PUBLISH],
        "migrate penstock zero",
        "showmigrations penstock",
        ["shell", "-c", AT_WORK],
        ["shell", "-c", WITH_LEAVE + ZERO],
        "migrate",
        "penstock drop --yes",
        "migrate penstock zero",  # nothing there
        "migrate",
    )
    refused = said.pop(4)
    assert refused.endswith("== 1")
    assert "hold 0 records, 1 staged" in refused
    assert "PENSTOCK_ALLOW_DROP = True" in refused
    assert "Unapplying penstock.0017_first_release... OK" in sound(said[:2])
    assert "[ ]" not in said[4], "what is refused is refused at once"
    assert "refused: 1 members are running" in said[5]
    assert "Unapplying penstock.0017_first_release... OK" in sound(said)
    assert wanting(address) == ([], [])
