"""The Django app: put "penstock.django" into INSTALLED_APPS.

It adds Penstock's tables to `manage.py migrate`, the commands as `manage.py penstock`, and checks.
"""

from .connections import database_url, fresh_connections
from .handler_connection import models_on

__all__ = ["database_url", "fresh_connections", "models_on"]
