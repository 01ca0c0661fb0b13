"""Fill a new database with what `python -m bench.seed` reads from standard input."""

import json
import os
import sys

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "coulisse_site.settings")
django.setup()

from django.core.management import call_command  # noqa: E402  apps must be ready first

from access import identity  # noqa: E402
from bench.provider import TOKEN, TOKENS  # noqa: E402
from core.ids import new_turn_id  # noqa: E402
from core.messages import Message  # noqa: E402
from core.tokens import estimate_message  # noqa: E402
from memory import history  # noqa: E402
from memory.transcript import Entry  # noqa: E402

AT_ONCE = 1000
"""Messages a statement: SQLite counts the values of one."""


def pair(question: str) -> list[Entry]:
    asked = Message("user", question)
    # The reply costs what the bench's provider says it does.
    said = Message("assistant", TOKEN * TOKENS)
    size = estimate_message(asked)
    return [Entry(asked, size), Entry(said, size, "assistant", "stop")]


def main() -> None:
    question, users = json.loads(sys.stdin.read())
    call_command("migrate", verbosity=0)
    entries = pair(question)
    for user, count in users:
        user_id = identity.derive(user)
        for start in range(0, count, AT_ONCE):
            pairs = min(AT_ONCE, count - start) // 2
            history.append(user_id, "", new_turn_id(), entries * pairs)


if __name__ == "__main__":
    main()
