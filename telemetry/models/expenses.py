"""The cost of model calls outside turns."""

from datetime import datetime

from django.db import models
from django.db.models import Count, Q, Sum
from django.utils.module_loading import import_string

from telemetry.models.choices import ExpensePurpose, choice_constraint, retention_start


class ExpenseQuerySet(models.QuerySet["Expense"]):
    def known_cost(self) -> tuple[int, int]:
        """Return the known cost in micro-USD, and the number of unpriced expenses."""
        sums = self.aggregate(
            known=Sum("cost_micro_usd"),
            unpriced=Count("id", filter=Q(cost_micro_usd=None)),
        )
        return int(sums["known"] or 0), sums["unpriced"]

    def prepare_deletion(self, now: datetime) -> None:
        """Total the hours of the rows to delete; raises an error if that fails."""
        # By its name, because it uses the other models.
        import_string("telemetry.statistics.hourly_rollup.seal_hours")(now)

    def expired(self, now: datetime) -> "ExpenseQuerySet":
        """Return the expenses that are older than turns may be, oldest first."""
        before = retention_start(now)
        if before is None:
            return self.none()
        return self.filter(spent_at__lt=before).order_by("spent_at", "id")


class Expense(models.Model):
    """Model calls outside turns, for one purpose at one time.

    The row contains no user.
    """

    purpose = models.CharField(max_length=16, choices=ExpensePurpose)
    name = models.CharField(max_length=255)
    """The judge; for embeddings the endpoint."""
    agent = models.CharField(max_length=255)
    """The agent whose reply was judged; empty for embeddings."""
    provider = models.CharField(max_length=255)
    model = models.CharField(max_length=255)
    spent_at = models.DateTimeField()
    model_calls = models.IntegerField()
    # Sum of all calls.
    input_tokens = models.BigIntegerField()
    output_tokens = models.BigIntegerField()
    cache_read_tokens = models.BigIntegerField()
    cache_write_tokens = models.BigIntegerField()
    reasoning_tokens = models.BigIntegerField()
    cost_micro_usd = models.BigIntegerField(null=True)
    """Null if unknown, which is not 0."""

    objects = ExpenseQuerySet.as_manager()

    class Meta:
        constraints = [
            choice_constraint(ExpensePurpose, "purpose", "telemetry_expense_purpose")
        ]
        indexes = [
            # Covering index for sums.
            models.Index(
                fields=[
                    "spent_at",
                    "id",
                    "purpose",
                    "name",
                    "agent",
                    "provider",
                    "model",
                    "input_tokens",
                    "output_tokens",
                    "cost_micro_usd",
                ],
                name="telemetry_expense_at",
            )
        ]

    def __str__(self) -> str:
        return f"{self.purpose} {self.name}: {self.provider}/{self.model}"
