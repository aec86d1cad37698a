"""What is asked, and can be answered only by a number."""

from penstock.wire.kafka.error_numbers import ErrorNumber


class Refused(Exception):
    """A request, or a part of it, is answered with a number of Kafka's."""

    def __init__(self, number: ErrorNumber, why: str = "") -> None:
        super().__init__(why or number.name)
        self.number = number
