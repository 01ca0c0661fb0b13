import json
from typing import Any

from config import schema, sections
from config.command import ConfigCommand


class Command(ConfigCommand):
    help = "Prints the JSON Schema of coulisse.yaml, for editors."

    def handle(self, *args: Any, **options: Any) -> None:
        document = schema.of(sections.registered().values())
        self.stdout.write(json.dumps(document, indent=2, ensure_ascii=False))
