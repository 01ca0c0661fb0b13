"""What every command of Coulisse's own has in common."""

from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandParser

from config.management import config_option


class ConfigCommand(BaseCommand):
    """A command about one YAML file, named by `-c`."""

    # Each command says itself what it needs to be right: `stop` must work whatever
    # is wrong with the YAML.
    requires_system_checks = ()

    def create_parser(
        self, prog_name: str, subcommand: str, **kwargs: Any
    ) -> CommandParser:
        # An option in short, `--conf`, would be read here but not before settings.
        return super().create_parser(
            prog_name, subcommand, **{"allow_abbrev": False, **kwargs}
        )

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        config_option.add_option(parser)

    def config_path(self, options: dict[str, Any]) -> Path:
        """Return the file `-c` names, or the one settings found."""
        given = options.get("config")
        return Path(given).absolute() if given else Path(settings.COULISSE_CONFIG)
