"""How listings call an event: `event:{type}:{partition}:{timestamp}:{id}`.

Partition in four digits, or `-` while it has none; time in milliseconds since 1970, of a scheduled event when
it is due, with zeros in front so that names sort by it. The view `penstock_events` says the same.
"""


def display_name(type: str, partition: int | None, ms: int, id: str) -> str:
    """Return an event's name for people."""
    place = "-" if partition is None else f"{partition:04}"
    return f"event:{type}:{place}:{ms:013}:{id}"
