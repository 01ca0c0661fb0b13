"""Whether the YAML needs the local model, for make: `python -m
processes.local_model.is_needed`.

Exits 0 if it does, and 1 if it does not or is invalid, which `start` then reports.
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
