"""What one run of a comparison is to do: a round."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Order:
    """The names of a case and of its variants, and where the numbers go.

    Without `peers` what another library does is left out: it does not depend on our package.
    """

    case: str
    variants: list[str]
    full: bool
    peers: bool
    json_file: str
