"""Loading all of Penstock, so that what modules declare at import (settings, points, errors) is there."""

import pkgutil
from importlib import import_module

import penstock

# Django loads these itself, in a project where its apps are set up; they declare nothing of ours.
_OF_A_PROJECT = {"penstock.django.admin", "penstock.django.models"}


def import_everything() -> list[str]:
    """Import every module of the package; return their names."""
    names = [module.name for module in pkgutil.walk_packages(penstock.__path__, "penstock.")]
    for name in names:
        if not name.endswith(".__main__") and name not in _OF_A_PROJECT:
            import_module(name)
    return names
