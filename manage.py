#!/usr/bin/env python
"""Coulisse's command line."""

import gc
import os
import sys

from config.management import config_option

OWN_COMMANDS = {
    *("admin", "beat", "check", "demo", "init", "migrate", "reset", "restart"),
    *("schema", "sidecars", "start", "status", "stop", "studio", "worker"),
    *(
        "consolidate",
        "erase-user",
        "export-user",
        "extraction",
        "hash-password",
        "reindex",
    ),
    *("audit", "experiments", "judge", "overrides", "prices", "scores"),
    *("smoke", "spend", "tasks", "token", "triggers", "turn", "turns"),
}
INTERRUPTED = 130


def take_config_option(argv: list[str]) -> None:
    """Put `-c PATH` into the environment, where settings look before any command runs.

    Only for commands that declare the option: `shell -c` means something else.
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
    take_config_option(sys.argv)
    try:
        run()
    except KeyboardInterrupt:
        # Before the command itself was there to say so.
        sys.exit(INTERRUPTED)
    finally:
        # Else Python tidies up all that Django loaded before it ends: half a second of
        # CPU, two on a busy machine, of the ten that `stop` waits for a server.
        gc.freeze()


if __name__ == "__main__":
    main()
