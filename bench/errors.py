"""What can keep a number from being taken."""


class NotMeasured(Exception):
    """A variant cannot run here; the message is the reason that its targets report.

    Raised by a case (a service is missing) or by the harness (a peer cannot be installed). The other
    variants go on, and the whole run ends with exit code 1.
    """


class PeerFailed(Exception):
    """A peer's script ended badly or answered no JSON; the message ends with its last words on stderr."""
