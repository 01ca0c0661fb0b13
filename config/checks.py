"""The YAML's problems as Django system checks."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from django.apps import AppConfig
from django.conf import settings
from django.core.checks import CheckMessage, Error, register

from config.errors import ConfigInvalid
from config.loading import loader


@register
def check_config(
    app_configs: Sequence[AppConfig] | None = None, **kwargs: Any
) -> list[CheckMessage]:
    """Return every problem of the YAML file.

    A missing file is no problem here: `migrate` and `init` run before it is written.
    `coulisse check` and the server's start require the file.
    """
    path = Path(settings.COULISSE_CONFIG)
    if not path.exists():
        return []
    try:
        loader.load_file(path)
    except ConfigInvalid as exc:
        return [Error(p.message, obj=p.position, id=p.code) for p in exc.problems]
    return []
