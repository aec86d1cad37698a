"""The display name of an event in listings: `event:{type}:{partition}:{timestamp}:{id}`.

The partition has four digits, or is `-` while there is none; the time, for a scheduled event its due time, is
in milliseconds since 1970 with leading zeros, so that names sort by it. The view `penstock_events` uses the
same form.
"""


def display_name(type: str, partition: int | None, ms: int, id: str) -> str:
    """Return an event's name for people."""
    place = "-" if partition is None else f"{partition:04}"
    return f"event:{type}:{place}:{ms:013}:{id}"
