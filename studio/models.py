"""Permissions for the pages that have no table."""

from django.db import models


class Page(models.Model):
    """No table: Django attaches permissions to a model."""

    class Meta:
        managed = False
        default_permissions = ()
        permissions = [
            ("view_configuration", "Can view agents and the rest of the configuration"),
            ("change_configuration", "Can change the configuration"),
            ("view_live", "Can view the live page"),
            ("view_playground", "Can view the playground"),
            ("use_playground", "Can chat in the playground"),
            ("view_spend", "Can view the spend"),
            ("view_sidecars", "Can view sidecars and their output"),
            ("restart_sidecars", "Can restart sidecars"),
            ("view_tables", "Can view the list of tables"),
            ("view_triggers", "Can view triggers"),
            ("run_triggers", "Can run triggers"),
        ]

    def __str__(self) -> str:
        return "page"
