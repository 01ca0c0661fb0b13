import os
from typing import Any

from django.core.management.base import CommandParser

from config.loading import reader
from config.management.base import ConfigCommand
from config.starters import starter_file
from config.starters.starter_file import Starter

DESCRIPTIONS = {
    "anthropic": "one agent on Anthropic",
    "openai": "one agent on OpenAI",
    "local": "one agent on a small local model",
    "tour": "a tour of every section",
}
KEY_HINT = (
    "For a better model, set ANTHROPIC_API_KEY or OPENAI_API_KEY and run "
    "`coulisse init --force`."
)


class Command(ConfigCommand):
    help = "Writes a starter file, coulisse.yaml."
    needs_database = False

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument(
            "--from-example",
            action="store_true",
            help="Write a tour of every section instead of the minimum.",
        )
        parser.add_argument(
            "--force", action="store_true", help="Overwrite an existing file."
        )

    def handle(self, *args: Any, **options: Any) -> None:
        path = self.config_path(options)
        if options["from_example"]:
            starter: Starter = "tour"
        else:
            starter = starter_file.choose_starter(os.environ)
        starter_file.write_starter(starter, path, force=options["force"])
        shown = options.get("config") or reader.display_path(path)
        self.stdout.write(f"wrote {shown}: {DESCRIPTIONS[starter]}")
        if starter == "local":
            self.stdout.write(KEY_HINT)
