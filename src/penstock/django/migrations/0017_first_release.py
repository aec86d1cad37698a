"""Penstock's tables as of the first release, and the models of the admin's lists, which have no tables."""

from typing import Any, ClassVar

from django.db import migrations, models

from ..tables import Tables


def _listed(name: str, words: str, permissions: list[tuple[str, str]]) -> Any:
    options = {
        "verbose_name": words,
        "verbose_name_plural": words,
        "managed": False,
        "default_permissions": (),
        "permissions": permissions,
    }
    id = models.TextField(primary_key=True, serialize=False)
    return migrations.CreateModel(name=name, fields=[("id", id)], options=options)


class Migration(migrations.Migration):  # type: ignore[misc]  # Django brings no types
    """The same change as `penstock migrate`."""

    dependencies: ClassVar[list[tuple[str, str]]] = []
    operations: ClassVar = [
        Tables(17),
        _listed(
            "DeadList",
            "dead letters",
            [
                ("view_dead_letters", "Can view dead letters"),
                ("requeue_dead_letters", "Can requeue dead letters"),
                ("discard_dead_letters", "Can discard dead letters"),
            ],
        ),
        _listed("LaneList", "waiting lanes", [("view_lanes", "Can view waiting lanes")]),
        _listed("GroupList", "groups", [("view_groups", "Can view groups")]),
    ]
