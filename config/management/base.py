"""The base class of Coulisse's commands."""

from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandParser

from config.management import config_option


class ConfigCommand(BaseCommand):
    """A command about one YAML file, named by `-c`."""

    # Each command declares its own checks: `stop` must work even with an invalid YAML.
    requires_system_checks = ()

    def create_parser(
        self, prog_name: str, subcommand: str, **kwargs: Any
    ) -> CommandParser:
        # Disabled because the settings would not recognize an abbreviation such as
        # `--conf`.
        return super().create_parser(
            prog_name, subcommand, **{"allow_abbrev": False, **kwargs}
        )

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        config_option.add_option(parser)

    def config_path(self, options: dict[str, Any]) -> Path:
        """Return the path from `-c`, or the one in the settings."""
        given = options.get("config")
        return Path(given).absolute() if given else Path(settings.COULISSE_CONFIG)
