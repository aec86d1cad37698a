"""What one of two compared runs is to do."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Order:
    """The names of the cases and of their variants, and where the numbers go.

    Without `peers` what another library does is left out: it does not depend on our package.
    """

    cases: list[tuple[str, list[str]]]
    full: bool
    rounds: int | None
    peers: bool
    json_file: str
