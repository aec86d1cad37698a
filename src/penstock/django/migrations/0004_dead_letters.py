"""Version 4 of Penstock's tables."""

from typing import ClassVar

from django.db import migrations

from ..tables import Tables


class Migration(migrations.Migration):  # type: ignore[misc]  # Django brings no types
    """The same change as `penstock migrate`."""

    dependencies: ClassVar = [("penstock", "0003_delivery")]
    operations: ClassVar = [Tables(4)]
