"""Models for the admin's lists: Django needs them for its menu, its URLs and its permissions.

They have no tables and no rows: the pages use `penstock.operate`. Migration 0001 names them, too.
"""

from typing import ClassVar

from django.db import models


class DeadList(models.Model):  # type: ignore[misc]  # Django brings no types
    """The dead letters."""

    id = models.TextField(primary_key=True)

    class Meta:
        """The permissions to view, requeue and discard."""

        managed = False
        verbose_name = verbose_name_plural = "dead letters"
        default_permissions = ()
        permissions: ClassVar = [
            ("view_dead_letters", "Can view dead letters"),
            ("requeue_dead_letters", "Can requeue dead letters"),
            ("discard_dead_letters", "Can discard dead letters"),
        ]


class LaneList(models.Model):  # type: ignore[misc]  # Django brings no types
    """The waiting lanes."""

    id = models.TextField(primary_key=True)

    class Meta:
        """The permission to view."""

        managed = False
        verbose_name = verbose_name_plural = "waiting lanes"
        default_permissions = ()
        permissions: ClassVar = [("view_lanes", "Can view waiting lanes")]


class GroupList(models.Model):  # type: ignore[misc]  # Django brings no types
    """The groups."""

    id = models.TextField(primary_key=True)

    class Meta:
        """The permission to view."""

        managed = False
        verbose_name = verbose_name_plural = "groups"
        default_permissions = ()
        permissions: ClassVar = [("view_groups", "Can view groups")]
