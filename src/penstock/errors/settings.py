"""Errors of settings and of the process around them."""

from collections.abc import Iterable

from .base import Error, Fault, shown


class SettingError(Error, code="setting", fault=Fault.CALLER):
    """A setting from the file, the environment, code or a flag cannot be used."""


class UnknownSetting(SettingError, code="unknown_setting"):
    """There is no setting of that name."""

    def __init__(self, name: str, source: str, known: Iterable[str]) -> None:
        super().__init__(f"{source}: there is no setting {shown(name)}; known settings: {', '.join(known)}")


class WrongSettingType(SettingError, code="wrong_setting_type"):
    """A setting's value is of the wrong type."""

    def __init__(self, name: str, value: object, wanted: str, source: str) -> None:
        super().__init__(f"{source}: {name}={shown(value)} must be {wanted}")


class SettingOutOfRange(SettingError, code="setting_out_of_range"):
    """A setting's value is outside its range."""

    def __init__(self, name: str, value: object, wanted: str, source: str) -> None:
        super().__init__(f"{source}: {name}={shown(value)} is out of range; it must be {wanted}")


class SettingsFileUnreadable(SettingError, code="settings_file_unreadable"):
    """The settings file is not there, or is not TOML."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"settings file {path}: {why}")


DISTRIBUTION = "penstock-outbox"  # the name of the package on PyPI: `penstock` there is another project


def install_command(extra: str) -> str:
    """Return the command that installs an extra."""
    return f"pip install '{DISTRIBUTION}[{extra}]', or pip install '.[{extra}]' in a clone of the repository"


class MissingExtra(Error, code="missing_extra", fault=Fault.CALLER):
    """An optional package is not installed."""

    def __init__(self, purpose: str, extra: str) -> None:
        super().__init__(f"{purpose} needs an extra; install it with: {install_command(extra)}")


class AddressRefused(Error, code="address_refused"):
    """The process cannot listen on an address."""

    def __init__(self, host: str, port: int, why: str) -> None:
        super().__init__(
            f"cannot listen on {host} port {port}: {why}; use an address of this machine and a free port (0 picks one)"
        )
        self.host, self.port = host, port


class UnknownPoint(Error, code="unknown_point", fault=Fault.CALLER):
    """A test armed a point that is not declared."""

    def __init__(self, name: str, known: Iterable[str]) -> None:
        super().__init__(f"no point {shown(name)} is declared; declared points: {', '.join(known)}")


class LabFailed(Error, code="lab_failed", fault=Fault.CALLER):
    """A crash laboratory could not run, so there is no verdict on the handlers."""

    def __init__(self, why: str) -> None:
        super().__init__(f"the crash laboratory could not run: {why}")
