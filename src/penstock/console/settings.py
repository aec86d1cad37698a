"""The settings of the console."""

from urllib.parse import urlsplit

from penstock.errors import SettingOutOfRange
from penstock.settings import Settings, setting

_PLACE = "{trace_id}"


class ConsoleSettings(Settings, room="console"):
    """The web console."""

    trace_url: str = setting(
        "",
        "Where a trace viewer shows a trace, with {trace_id} in place of its id, such as "
        "https://jaeger.example/trace/{trace_id}. Empty: no links to traces.",
    )


def trace_template(settings: ConsoleSettings) -> str | None:
    """Return the URL template of a trace viewer; None if none is set. Raises SettingOutOfRange."""
    url = settings.trace_url
    if not url:
        return None
    if urlsplit(url).scheme not in ("http", "https") or _PLACE not in url:
        wanted = f"an address that begins with http:// or https:// and has {_PLACE}"
        raise SettingOutOfRange("trace_url", url, wanted, "console")
    return url


def trace_address(template: str | None, trace_id: str | None) -> str | None:
    """Return the URL of a trace in the viewer; None without a viewer or a trace."""
    return None if template is None or trace_id is None else template.replace(_PLACE, trace_id)
