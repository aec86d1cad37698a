"""The first tables."""

from django.db import migrations
from django.db.models import CharField, IntegerField


class Migration(migrations.Migration):
    initial = True
    id = CharField(primary_key=True, serialize=False, max_length=36)
    name = CharField(primary_key=True, serialize=False, max_length=100)
    zero = IntegerField(default=0)
    operations = [
        migrations.CreateModel(
            "Order", [("id", id), ("customer", CharField(max_length=100)), ("cents", IntegerField())]
        ),
        migrations.CreateModel("Spending", [("customer", name), ("orders", zero), ("cents", zero)]),
        migrations.CreateModel("Handled", [("event_id", id)]),
    ]
