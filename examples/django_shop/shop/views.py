"""The shop's pages."""

import json

from django.db import IntegrityError, connection, transaction
from django.http import HttpRequest, JsonResponse
from django.urls import path
from django.views.decorators.http import require_GET, require_POST

from shop.events import outbox
from shop.models import Order, Spending


class Blocked(Exception):
    """This customer may not order."""


@require_POST
def place_order(request: HttpRequest) -> JsonResponse:
    """Store an order and its event in one transaction: both are there, or neither."""
    new = json.loads(request.body)
    try:
        with transaction.atomic():
            Order.objects.create(id=new["id"], customer=new["customer"], cents=new["cents"])
            event_id = outbox.publish(connection, "order.placed", new, key=new["customer"])
            if new["customer"] == "blocked":
                raise Blocked  # neither order nor event remain
    except IntegrityError:
        return JsonResponse({"detail": f"order {new['id']} exists"}, status=409)
    except Blocked:
        return JsonResponse({"detail": "this customer may not order"}, status=403)
    return JsonResponse({"order": new["id"], "event": event_id}, status=201)


@require_GET
def spending(request: HttpRequest) -> JsonResponse:
    """Return what the handler has added up so far."""
    return JsonResponse({one.pk: {"orders": one.orders, "cents": one.cents} for one in Spending.objects.all()})


urlpatterns = [path("orders", place_order), path("spending", spending)]
