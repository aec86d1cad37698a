"""The app's entry in Django's registry."""

from django.apps import AppConfig
from django.core.checks import register

from .checks import check_outbox, check_transaction_mode


class PenstockConfig(AppConfig):  # type: ignore[misc]  # Django brings no types
    """Penstock in a Django project."""

    name = "penstock.django"
    label = "penstock"
    verbose_name = "Penstock"

    def ready(self) -> None:
        """Register the checks."""
        register(check_transaction_mode)
        register(check_outbox)
