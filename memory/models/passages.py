"""The model of the search index."""

from django.db import models
from django.db.models import Q

from memory.models.facts import Fact
from memory.models.fields import TermsField, VectorField
from memory.models.threads import StoredMessage, Thread


class Passage(models.Model):
    """A searchable text: a fact or a message.

    Rows are never updated: a changed text gets a new row, so cached rows stay valid.
    """

    user_id = models.UUIDField()
    fact = models.OneToOneField(Fact, null=True, on_delete=models.CASCADE)
    message = models.OneToOneField(StoredMessage, null=True, on_delete=models.CASCADE)
    thread = models.ForeignKey(
        Thread,
        null=True,
        on_delete=models.CASCADE,
        db_index=False,
        # The message's own foreign key ensures it. Checking this one without an index
        # would read all passages of all users for each erased thread.
        db_constraint=False,
    )
    position = models.BigIntegerField(null=True)
    """The message's position in its thread; its window consists of its neighbours."""
    is_question = models.BooleanField(default=False)
    terms = TermsField()
    window_terms = TermsField(null=True)
    """The terms of a message and its neighbours; on PostgreSQL only."""
    embedder = models.CharField(max_length=128, blank=True, default="")
    """The embedder of the vector; "" if there is none yet."""
    dimensions = models.IntegerField(default=0)
    vector = VectorField(null=True)
    embedding_error = models.TextField(blank=True, default="")

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(fact__isnull=False, message__isnull=True)
                | Q(fact__isnull=True, message__isnull=False),
                name="memory_passage_of_one",
            )
        ]
        indexes = [
            models.Index(fields=["user_id", "id"], name="memory_passage_of_user"),
            models.Index(fields=["embedder", "id"], name="memory_passage_embedder"),
        ]

    def __str__(self) -> str:
        return f"passage {self.pk}"
