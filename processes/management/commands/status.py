"""`manage.py status`: what runs, and where its files are."""

import sys
import time
from pathlib import Path
from typing import Any

from processes import state
from processes.command import ProcessCommand, running
from processes.record import ChildRecord, RunRecord
from processes.state import StateDir, describe_path

NOT_RUNNING = 3
"""The exit code init scripts agree on (LSB)."""


class Command(ProcessCommand):
    """Print the record the supervisor keeps."""

    help = "Say whether the server runs. Exits 0 when it does, 3 when it does not."

    def handle(self, **options: Any) -> None:
        files = state.current()
        found = running(files)
        if found is None:
            self.stdout.write("not running")
            sys.exit(NOT_RUNNING)
        pid, run = found
        word = "running" if run is not None and run.is_serving else "starting"
        self.stdout.write(f"{word} (pid {pid})")
        if run is not None:
            self._describe(run, files)

    def _describe(self, run: RunRecord, files: StateDir) -> None:
        log = describe_path(files.log) if run.is_detached else "its terminal"
        self.stdout.write(f"  config: {describe_path(Path(run.config))}")
        self.stdout.write(f"  log:    {log}")
        self.stdout.write(f"  url:    {run.url}/v1")
        width = max((len(child.name) for child in run.children), default=0)
        for child in run.children:
            self.stdout.write(f"  {child.name:<{width}}  {describe(child)}")


def describe(child: ChildRecord) -> str:
    """Return a child's pid, its age and how often it was started again."""
    seconds = max(0, int(time.time() - child.created_at))
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    age = f"{hours}h {minutes}m" if hours else f"{minutes}m {seconds}s"
    return f"pid {child.pid}, up {age}, {child.restarts} restarts"
