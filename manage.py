#!/usr/bin/env python
"""Coulisse's command line."""

import gc
import os
import sys

from config.management import config_option
from core.version import VERSION

OWN_COMMANDS = {
    "admin",
    "audit",
    "beat",
    "chat",
    "check",
    "completion",
    "consolidate",
    "demo",
    "doctor",
    "erase-user",
    "experiments",
    "export-user",
    "extraction",
    "hash-password",
    "import",
    "init",
    "judge",
    "keys",
    "local-model",
    "migrate",
    "migrate-database",
    "overrides",
    "prices",
    "reindex",
    "reset",
    "restart",
    "runserver",
    "schema",
    "scores",
    "sidecars",
    "smoke",
    "spend",
    "start",
    "status",
    "stop",
    "studio",
    "tasks",
    "token",
    "triggers",
    "turn",
    "turns",
    "update",
    "worker",
}
INTERRUPTED = 130


def complete_words(argv: list[str]) -> list[str]:
    """Return the command line with its command: without one, `start --foreground`.

    Options alone are those of `start`, as in `coulisse -c team.yaml`.
    """
    program, *words = argv
    if not words or (words[0].startswith("-") and words[0] not in ("-h", "--help")):
        words = ["start", "--foreground", *words]
    return [program, *words]


def take_config_option(argv: list[str]) -> None:
    """Set `COULISSE_CONFIG` from `-c PATH`, before the settings load.

    Only for commands that declare the option: `shell -c` has another meaning.
    """
    if len(argv) < 2 or argv[1] not in OWN_COMMANDS:
        return
    path = config_option.find_path(argv[2:])
    if path:
        os.environ["COULISSE_CONFIG"] = path


def run() -> None:
    from django.core.management import execute_from_command_line

    from telemetry.log_output import logs

    logs.capture_python_output()
    execute_from_command_line(sys.argv)


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "coulisse_site.settings")
    if sys.argv[1:] in (["--version"], ["version"]):
        sys.stdout.write(f"coulisse {VERSION}\n")
        return
    sys.argv = complete_words(sys.argv)
    take_config_option(sys.argv)
    try:
        run()
    except KeyboardInterrupt:
        # The interrupt came before the command could handle it.
        sys.exit(INTERRUPTED)
    finally:
        # Otherwise Python collects all of Django's objects at exit. That takes half a
        # second, or two on a busy machine, of the ten that `stop` waits for a server.
        gc.freeze()


if __name__ == "__main__":
    main()
