"""The settings. The database is DATABASE_URL: shop.db unless it is set, or postgresql://user@host/name."""

import os
from urllib.parse import parse_qsl, unquote, urlsplit

url = urlsplit(os.environ.get("DATABASE_URL", "sqlite:///shop.db"))
if url.scheme == "sqlite":
    database = {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": url.path.removeprefix("/"),
        # A transaction that reads first cannot fail with "database is locked".
        "OPTIONS": {"timeout": 30, "transaction_mode": "IMMEDIATE"},
    }
else:
    given = dict(parse_qsl(url.query))
    database = {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": url.path.removeprefix("/"),
        "USER": unquote(url.username or ""),
        "PASSWORD": unquote(url.password or ""),
        "HOST": given.get("host", url.hostname or ""),
        "PORT": given.get("port", url.port or ""),
    }

DATABASES = {"default": database}
INSTALLED_APPS = ["shop", "penstock.django"]
PENSTOCK_OUTBOX = "shop.events:outbox"
ROOT_URLCONF = "shop.views"
ALLOWED_HOSTS = ["localhost", "127.0.0.1"]
SECRET_KEY = "only for this example"
