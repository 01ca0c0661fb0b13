"""The namespace of user ids."""

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now


class UserNamespace(models.Model):
    """What all processes of this database share: at most one row."""

    id = models.PositiveSmallIntegerField(primary_key=True, db_default=1)
    fingerprint = models.CharField(max_length=64)
    """A digest of the namespace, in hexadecimal."""
    key_ids = models.CharField(max_length=255, blank=True, db_default="")
    """Short digests of the secret keys, which all processes share."""
    recorded_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(id=1), name="access_user_namespace_one_row"
            )
        ]

    def __str__(self) -> str:
        return self.fingerprint
