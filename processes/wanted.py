"""Whether the YAML asks for the local model, for make: `python -m processes.wanted`.

Exits 0 when it does; 1 when it does not, or cannot be read, which `start` then tells.
"""

import os
import sys
from pathlib import Path

import django
from django.conf import settings

from config.errors import ConfigInvalid
from config.loading import loader
from processes.server import server_plan


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "coulisse_site.settings")
    django.setup()
    try:
        config = loader.load_file(Path(settings.COULISSE_CONFIG))
    except ConfigInvalid:
        sys.exit(1)
    sys.exit(0 if server_plan.local_model_providers(config) else 1)


if __name__ == "__main__":
    main()
