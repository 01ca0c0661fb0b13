from typing import Any

from django.core.management.base import CommandError
from django.core.management.commands.check import Command as DjangoCheck

from config import loader, reader
from config.command import ConfigCommand
from config.errors import ConfigInvalid
from config.sections import Config

COUNTED = ("agents", "judges", "experiments", "providers")


class Command(ConfigCommand, DjangoCheck):
    help = "Checks the YAML file, and the rest of the project with it."

    def handle(self, *app_labels: Any, **options: Any) -> None:
        super().handle(*app_labels, **options)
        if app_labels or options["tags"] or options["list_tags"]:
            return
        path = self.config_path(options)
        try:
            config = loader.load(path)
        except ConfigInvalid as exc:
            raise CommandError(str(exc)) from exc
        shown = options.get("config") or reader.label(path)
        self.stdout.write(f"ok — {shown} ({_counts(config)})")

    def check(self, *args: Any, **kwargs: Any) -> None:
        # Success has a line of its own here.
        super().check(*args, **{**kwargs, "display_num_errors": False})


def _counts(config: Config) -> str:
    return ", ".join(f"{len(config.values.get(key, ()))} {key}" for key in COUNTED)
