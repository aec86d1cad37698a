"""A refusal that has only a number."""

from penstock.wire.kafka.error_numbers import ErrorNumber


class Refused(Exception):
    """A request, or a part of it, is answered with one of Kafka's numbers."""

    def __init__(self, number: ErrorNumber, why: str = "") -> None:
        super().__init__(why or number.name)
        self.number = number
