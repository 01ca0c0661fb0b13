from django.db import migrations
from django.db.models import F, OuterRef, Subquery, Sum, Value
from django.db.models.functions import Coalesce


def add_up(apps, schema_editor):
    """Give turns recorded before what is known of their costs."""
    Turn = apps.get_model("telemetry", "Turn")
    ModelCall = apps.get_model("telemetry", "ModelCall")
    Turn.objects.filter(cost_micro_usd__gt=0).update(known_micro_usd=F("cost_micro_usd"))
    calls = ModelCall.objects.filter(turn=OuterRef("pk")).order_by().values("turn")
    known = Subquery(calls.annotate(known=Sum("cost_micro_usd")).values("known"))
    Turn.objects.filter(cost_micro_usd=None).update(
        known_micro_usd=Coalesce(known, Value(0))
    )


class Migration(migrations.Migration):

    dependencies = [("telemetry", "0006_sums_from_indexes")]

    operations = [migrations.RunPython(add_up, migrations.RunPython.noop)]
