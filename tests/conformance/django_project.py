"""A Django project in a folder, with our app in it, run as its users run it: by `manage.py`."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import penstock
from penstock.database.dialects import open_database
from penstock.database.drift import differences
from penstock.database.migrations import pending
from penstock.database.naming import Names
from tests.conformance.django_callers import database_of

SETTINGS = """
import json, os
SECRET_KEY = "x"
USE_TZ = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
INSTALLED_APPS = ["penstock.django", "shop"]
globals().update(json.loads(os.environ["PROJECT"]))
"""
MANAGE = """
import json, os, sys, traceback
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "settings")
from django.core.management import execute_from_command_line
for args in json.loads(sys.argv[1]):
    code = 0
    try:
        execute_from_command_line(["manage.py", *args])
    except SystemExit as ended:
        code = ended.code or 0
    except Exception:
        traceback.print_exc()
        code = 1
    sys.stderr.flush()
    print(f"\\n== {code}", flush=True)
"""
MODELS = """
from django.db import models
class Order(models.Model):
    cents = models.IntegerField(default=0)
"""
INITIAL = """
from django.db import migrations, models
class Migration(migrations.Migration):
    operations = [
        migrations.CreateModel(
            "Order",
            [("id", models.BigAutoField(primary_key=True)), ("cents", models.IntegerField(default=0))],
        )
    ]
"""
EVENTS = """
import os, signal
from penstock import Outbox
from penstock.django import database_url, fresh_connections
outbox = Outbox(database_url())

@outbox.handler("order.placed", group="mailer")
@fresh_connections
def send_mail(record):
    from shop.models import Order
    print("mailed", record.value["order"], Order.objects.count(), flush=True)
    os.kill(os.getpid(), signal.SIGTERM)
"""
TESTS = """
from django.db import connection, transaction
from django.test import TestCase, TransactionTestCase
from penstock.django import database_url
from shop.events import outbox
from penstock.clock import SYSTEM
from penstock.testing import relocated
from shop.models import Order

class Undone(TestCase):
    def test_publish(self):
        Order.objects.create()
        outbox.publish(connection, "order.placed", {"order": 1}, key="1")

class Delivered(TransactionTestCase):
    def test_publish(self):
        seen = []
        outbox.handler("test.*", group="test", id="test")(lambda record: seen.append(record.type))
        with transaction.atomic():
            outbox.publish(connection, "test.one", {}, key="1")
        with relocated(outbox, database_url(), clock=SYSTEM):
            outbox.drain()
        self.assertEqual(seen, ["test.one"])
"""


class Project:
    """One project: its folder, its settings, and its commands."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder, self.package = folder, Path(penstock.__file__).parents[1]
        database = database_of(url)
        if url.startswith("sqlite"):
            database["OPTIONS"]["transaction_mode"] = "IMMEDIATE"
            database["TEST"] = {"NAME": str(folder / "test.db")}
        self.settings: dict[str, Any] = {"DATABASES": {"default": database}, "PENSTOCK_OUTBOX": "shop.events:outbox"}
        files = {
            "manage.py": MANAGE,
            "settings.py": SETTINGS,
            "shop/__init__.py": "",
            "shop/models.py": MODELS,
            "shop/events.py": EVENTS,
            "shop/tests.py": TESTS,
            "shop/migrations/__init__.py": "",
            "shop/migrations/0001_initial.py": INITIAL,
        }
        for name, text in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")

    def manage(self, *commands: str | list[str]) -> list[str]:
        """Run some commands of `manage.py`, all in one process for its cost.

        Returns what each has said, with its exit code at the end: `== 0`.
        """
        split = [each.split() if isinstance(each, str) else each for each in commands]
        done = subprocess.run(
            [sys.executable, "manage.py", json.dumps(split)],
            cwd=self.folder,
            env={
                **os.environ,
                "PROJECT": json.dumps(self.settings),
                "PYTHONPATH": os.pathsep.join([str(self.package), *sys.path]),
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=100,
            check=False,
        )
        said = re.findall(r".*?\n== \d+", done.stdout, re.DOTALL)
        assert len(said) == len(commands), done.stdout
        return said


def sound(said: list[str]) -> str:
    """Return all that some commands have said; each must have ended well."""
    assert all(each.endswith("== 0") for each in said), "\n".join(said)
    return "\n".join(said)


def wanting(address: str, names: Names | None = None) -> tuple[list[int], list[str]]:
    """Return which versions a store lacks, and how its tables differ."""
    database = open_database(address, names or Names())
    try:
        return [step.version for step in pending(database)], differences(database)
    finally:
        database.close()
