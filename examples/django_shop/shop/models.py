"""What the shop stores."""

from django.db import models


class Order(models.Model):
    """What a customer has ordered."""

    id = models.CharField(primary_key=True, max_length=36)
    customer = models.CharField(max_length=100)
    cents = models.IntegerField()


class Spending(models.Model):
    """The projection: how many orders a customer has placed, and for how much. Only the handler writes it."""

    customer = models.CharField(primary_key=True, max_length=100)
    orders = models.IntegerField(default=0)
    cents = models.IntegerField(default=0)


class Handled(models.Model):
    """The ids of the events that are in the projection."""

    event_id = models.CharField(primary_key=True, max_length=36)
