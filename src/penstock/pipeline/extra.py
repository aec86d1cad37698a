"""Checks that an extra is installed, once for each part of the room, so that its modules import plainly."""

from importlib.util import find_spec

from penstock.errors import MissingExtra


def check_extra(purpose: str, extra: str, *packages: str) -> None:
    """Check that the packages of an extra are there, without importing them. Raises MissingExtra."""
    if any(find_spec(each) is None for each in packages):
        raise MissingExtra(purpose, extra)


def check_spark() -> None:
    """Check that pipelines have the packages they need. Raises MissingExtra."""
    drivers = "adbc_driver_postgresql", "adbc_driver_sqlite"
    check_extra("a pipeline", "spark", "pyspark", "pyarrow", "deltalake", *drivers)
