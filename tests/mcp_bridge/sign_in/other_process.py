"""Another process of the same server: tells a user's token when it is let go.

python -m tests.mcp_bridge.sign_in.other_process DATABASE SECRETS URL USER
"""

import asyncio
import sys
import uuid
from pathlib import Path

import django

django.setup()

from django.conf import settings  # noqa: E402
from django.db import connections  # noqa: E402

from core.ids import UserId  # noqa: E402
from mcp_bridge.oauth import token_manager  # noqa: E402
from tests.mcp_bridge.conftest import PATIENCE_SECONDS  # noqa: E402
from tests.mcp_bridge.sign_in.users import Stage, configured  # noqa: E402


def main() -> None:
    database, secrets, url, user = sys.argv[1:]
    connections.settings["default"]["NAME"] = database
    settings.COULISSE_SECRETS_FILE = Path(secrets)
    token_manager.TIMEOUT_SECONDS = PATIENCE_SECONDS
    stage = Stage(configured(notes={"url": url}))
    tell("ready")
    sys.stdin.readline()
    tell(asyncio.run(stage.token("notes", UserId(uuid.UUID(user)))))


def tell(what: str | None) -> None:
    sys.stdout.write(f"{what}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
