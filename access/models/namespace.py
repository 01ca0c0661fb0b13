"""The namespace of user ids."""

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now


class UserNamespace(models.Model):
    """The namespace of this database's user ids: at most one row."""

    id = models.PositiveSmallIntegerField(primary_key=True, db_default=1)
    fingerprint = models.CharField(max_length=64)
    """A digest of the namespace, in hexadecimal."""
    recorded_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(id=1), name="access_user_namespace_one_row"
            )
        ]

    def __str__(self) -> str:
        return self.fingerprint
