"""The model of which messages mention which facts."""

import uuid
from collections.abc import Iterable

from django.db import models

from memory.models.messages import StoredMessage


class FactMessageQuerySet(models.QuerySet["FactMessage"]):
    def link(self, links: Iterable[tuple[uuid.UUID, int]]) -> None:
        """Store that messages mention facts: pairs of a fact's and a message's id."""
        rows = [FactMessage(fact_id=fact, message_id=number) for fact, number in links]
        self.bulk_create(rows, ignore_conflicts=True)


class FactMessage(models.Model):
    """Links a fact with a message that mentions it.

    A fact may be repeated in other words; `Fact.message` is the newest that changed it.
    """

    fact = models.ForeignKey("memory.Fact", on_delete=models.CASCADE, db_index=False)
    message = models.ForeignKey(StoredMessage, on_delete=models.CASCADE)

    objects = FactMessageQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["fact", "message"], name="memory_factmessage_once"
            )
        ]

    def __str__(self) -> str:
        return f"message {self.message_id} mentions {self.fact_id}"
