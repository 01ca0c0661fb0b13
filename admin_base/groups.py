"""The groups of the studio: viewers may read everything, operators may do everything.

`migrate` grants both every permission that exists, except those of models that name a
group of their own in `reader_group`: only that group has these. Other groups are made
in the studio, and are left alone.
"""

from typing import Any

from django.apps import AppConfig, apps
from django.contrib.auth.management import create_permissions

OPERATORS = "operator"
VIEWERS = "viewer"
VIEW_PREFIX = "view_"


def grant_permissions(app_config: AppConfig, using: str, **options: Any) -> None:
    """Grant the permissions of an app, after its migration."""
    if not apps.is_installed("django.contrib.auth"):
        return
    # Django's own handler may run after this one.
    create_permissions(app_config, verbosity=0, using=using)
    permissions = (
        apps.get_model("auth", "Permission")
        .objects.using(using)
        .filter(content_type__app_label=app_config.label)
    )
    groups = apps.get_model("auth", "Group").objects.using(using)
    operators, _ = groups.get_or_create(name=OPERATORS)
    viewers, _ = groups.get_or_create(name=VIEWERS)
    for model in app_config.get_models():
        if name := getattr(model, "reader_group", ""):
            readers, _ = groups.get_or_create(name=name)
            own = permissions.filter(content_type__model=model._meta.model_name)
            readers.permissions.add(*own)
            permissions = permissions.exclude(pk__in=own)
    operators.permissions.add(*permissions)
    viewers.permissions.add(*permissions.filter(codename__startswith=VIEW_PREFIX))
