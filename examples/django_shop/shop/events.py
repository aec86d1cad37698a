"""The outbox, in the same database as the models, and the handler."""

from django.db import transaction
from django.db.models import F

from penstock import Exponential, Outbox, Record
from penstock.django import database_url, fresh_connections
from shop.models import Handled, Spending

outbox = Outbox(database_url(), retry=Exponential(max_retries=5))


@outbox.handler("order.placed", group="spending")
@fresh_connections
def add_up(record: Record) -> None:
    """Add an order to its customer, once: an event that comes again after a crash is known by its id."""
    with transaction.atomic():
        _, is_new = Handled.objects.get_or_create(event_id=record.id)
        if is_new:
            order = record.value
            Spending.objects.get_or_create(customer=order["customer"])
            Spending.objects.filter(customer=order["customer"]).update(
                orders=F("orders") + 1, cents=F("cents") + order["cents"]
            )
