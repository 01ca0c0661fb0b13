import json
from typing import Any

from config import sections
from config.management.base import ConfigCommand
from config.validation import json_schema


class Command(ConfigCommand):
    help = "Prints the JSON Schema of coulisse.yaml, for editors."
    needs_database = False

    def handle(self, *args: Any, **options: Any) -> None:
        document = json_schema.build_schema(sections.registered_sections().values())
        self.stdout.write(json.dumps(document, indent=2, ensure_ascii=False))
