"""`coulisse update`: how to update this installation."""

import shlex
from pathlib import Path
from typing import Any

from django.conf import settings

from config.management.base import ConfigCommand
from core.version import VERSION
from processes.server.package_installer import install_command
from processes.supervision.state_directory import describe_path

WHEEL = "WHEEL"
"""Stands for the file or address of a newer wheel."""


class Command(ConfigCommand):
    """Changes nothing: each kind of installation has a tool that updates it."""

    help = "Show the steps that update this installation. Uses no network."

    def handle(self, **options: Any) -> None:
        tree = Path(settings.BASE_DIR)
        state = Path(settings.COULISSE_STATE_DIR)
        file = f" -c {shlex.quote(options['config'])}" if options["config"] else ""
        copy = f"cp -r {shlex.quote(describe_path(state))} coulisse-backup-{VERSION}"
        steps = [
            f"coulisse stop{file}",
            *([copy] if state.exists() else []),
            find_step(tree),
            f"coulisse check{file}",
            f"coulisse start{file}",
        ]
        lines = [f"coulisse {VERSION} in {tree}; to update it:", *steps]
        self.stdout.write("\n  ".join(lines))


def find_step(tree: Path) -> str:
    """Return the command that replaces the code in this directory."""
    if (tree / ".git").exists():
        # In a shell of its own: the next commands need the present directory.
        return f"(cd {shlex.quote(str(tree))} && git pull && make setup)"
    if (tree / "Makefile").exists():
        return f"replace {tree} by the new version, or the container by its new image"
    step = f"{install_command()} --upgrade {WHEEL}"
    if step.startswith("uv"):
        step += f"  # or, with uvx: uvx --from {WHEEL} coulisse"
    return step
