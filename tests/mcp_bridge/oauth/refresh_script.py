"""A second process of the same server, which prints a user's token on request.

python -m tests.mcp_bridge.oauth.refresh_script DATABASE SECRETS URL USER
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
from tests.mcp_bridge.conftest import TEST_SECONDS  # noqa: E402
from tests.mcp_bridge.oauth.sign_in_process import SignInProcess, configured  # noqa: E402


def main() -> None:
    database, secrets, url, user = sys.argv[1:]
    connections.settings["default"]["NAME"] = database
    settings.COULISSE_SECRETS_FILE = Path(secrets)
    token_manager.TIMEOUT_SECONDS = TEST_SECONDS
    process = SignInProcess(configured(notes={"url": url}))
    write_line("ready")
    sys.stdin.readline()
    write_line(asyncio.run(process.token("notes", UserId(uuid.UUID(user)))))


def write_line(text: str | None) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
