"""Models for the admin's lists: Django needs them for its menu, its URLs and its permissions.

They have no tables and no rows: the pages use `penstock.operate`. Migration 0017 names them, too.
"""

from typing import ClassVar

from django.db import models


class _List(models.Model):  # type: ignore[misc]  # Django brings no types
    id = models.TextField(primary_key=True)

    class Meta:
        abstract = True
        managed = False
        default_permissions = ()


class DeadList(_List):
    """The dead letters."""

    class Meta(_List.Meta):
        """The permissions to view, requeue and discard."""

        verbose_name = verbose_name_plural = "dead letters"
        permissions: ClassVar = [
            ("view_dead_letters", "Can view dead letters"),
            ("requeue_dead_letters", "Can requeue dead letters"),
            ("discard_dead_letters", "Can discard dead letters"),
        ]


class LaneList(_List):
    """The waiting lanes."""

    class Meta(_List.Meta):
        """The permission to view."""

        verbose_name = verbose_name_plural = "waiting lanes"
        permissions: ClassVar = [("view_lanes", "Can view waiting lanes")]


class GroupList(_List):
    """The groups."""

    class Meta(_List.Meta):
        """The permission to view."""

        verbose_name = verbose_name_plural = "groups"
        permissions: ClassVar = [("view_groups", "Can view groups")]
