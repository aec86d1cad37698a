"""Django's models in the transaction of a handler, its admin, and the way back, in real projects."""

from pathlib import Path
from typing import Any

import pytest

from tests.conformance.django_project import Project, sound
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
def test_models_join_the_transaction_of_a_handler(
    engine: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
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
    said = sound(
        project.manage("check", "migrate", "makemigrations penstock --check", ["shell", "-c", ADMIN])
    )
    assert said.count("\npassed ") == 4
