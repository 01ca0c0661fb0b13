"""`coulisse export-user`: export all data of a user."""  # noqa: N999

import os
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser

from access.audit import audit_events, audit_log
from access.audit.audit_events import AuditEvent
from access.management.user_command import UserCommand
from memory.user_data import erasure, export


class Command(UserCommand):
    """Write the complete document of `GET /v1/users/me/export`."""

    help = "Export all data of a user as one JSON document."

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument(
            "-o",
            "--output",
            metavar="FILE",
            help="Write to this file, readable only by you (default: the terminal).",
        )

    def handle(self, **options: Any) -> None:
        user_id = self.user_id(options)
        is_empty = not any(erasure.count_rows(user_id).values())
        chunks = export.iter_chunks(user_id)
        if options["output"] is None:
            for chunk in chunks:
                self._print(chunk)
            self._print(b"\n")
        else:
            write_file(Path(options["output"]), chunks)
        if is_empty:
            self.write_note(f"no data of user {options['user']}")
        audit_log.write(
            AuditEvent("user.export", audit_events.terminal_actor(), str(user_id))
        )

    def _print(self, chunk: bytes) -> None:
        # JSON is UTF-8, regardless of the terminal's encoding.
        buffer = getattr(self.stdout, "buffer", None)
        if buffer is None:
            self.stdout.write(chunk.decode(), ending="")
        else:
            buffer.write(chunk)


def write_file(path: Path, chunks: Iterable[bytes]) -> None:
    """Write the pieces to a file, all or none, readable by its owner only."""
    try:
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as exc:
        raise CommandError(f"cannot write {path}: {exc.strerror}") from exc
    try:
        with open(descriptor, "wb") as file:
            file.writelines(chunks)
        os.replace(name, path)
    except OSError as exc:
        raise CommandError(f"cannot write {path}: {exc.strerror}") from exc
    finally:
        Path(name).unlink(missing_ok=True)
