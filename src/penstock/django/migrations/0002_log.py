"""Version 2 of Penstock's tables."""

from typing import ClassVar

from django.db import migrations

from ..tables import Tables


class Migration(migrations.Migration):  # type: ignore[misc]  # Django brings no types
    """The same change as `penstock migrate`."""

    dependencies: ClassVar = [("penstock", "0001_staging")]
    operations: ClassVar = [Tables(2)]
