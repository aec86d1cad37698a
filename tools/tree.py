"""Loading all of Penstock, so that what modules declare at import (settings, points, errors) is there."""

import pkgutil
from importlib import import_module

import penstock


def import_everything() -> list[str]:
    """Import every module of the package; return their names."""
    names = [module.name for module in pkgutil.walk_packages(penstock.__path__, "penstock.")]
    for name in names:
        if not name.endswith(".__main__"):
            import_module(name)
    return names
