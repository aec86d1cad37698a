"""The shop whose console is photographed: a worker of it. `python -m tools.picture_shop URL`."""

import sys
from datetime import timedelta

from penstock import Cancel, Fixed, Outbox, Record


def shop(url: str) -> Outbox:
    """Return the outbox of the shop, with its handlers."""
    outbox = Outbox(url)

    @outbox.handler("order.*", group="mailer", retry=Fixed(timedelta(seconds=30), max_retries=1))
    def mail(record: Record) -> Cancel | None:
        number = int(str(record.key).partition("-")[2])
        if number % 97 == 0:
            raise ValueError(f"order {record.key} has no address")
        if number % 41 == 0:
            raise TimeoutError(f"smtp.example did not answer within 5 s, for {record.key}")
        return Cancel(f"no such customer: {number}") if number % 61 == 0 else None

    @outbox.handler("order.*", group="accounting")
    def book(record: Record) -> None: ...

    @outbox.handler("payment.*", group="fraud-check")
    def check(record: Record) -> None: ...

    outbox.periodic("cleanup", timedelta(minutes=30), type="order.cleanup", key="o-1")
    return outbox


if __name__ == "__main__":
    shop(sys.argv[1]).run()
