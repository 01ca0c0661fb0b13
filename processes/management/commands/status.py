"""`coulisse status`: shows the running processes and their files."""

import math
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, assert_never

from django.core.management.base import CommandParser

from config.errors import ConfigInvalid
from config.loading import loader
from config.management.base import ConfigCommand
from database.running_processes import WARNINGS
from memory import checks, memory_settings
from processes.server import health_probe
from processes.server.running_server import find_running, is_serving_config
from processes.sidecar_control import sidecar_activation, sidecar_records
from processes.supervision import state_directory
from processes.supervision.run_state import ChildRecord, RunRecord
from processes.supervision.state_directory import StateDir, describe_path

NOT_RUNNING = 3
"""The exit code of LSB init scripts."""
NOT_READY = 1
READY_SECONDS = 5.0
"""Time limit of the readiness check."""
NO_BROKER = (
    "  no broker: background work waits (tasks, triggers, judges, fact extraction)"
)


class Command(ConfigCommand):
    """Prints the record that the supervisor writes."""

    help = "Show whether the server runs. Exits 0 if it does, 3 if it does not."
    needs_database = False

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument(
            "--ready",
            action="store_true",
            help="Also check that it is ready to serve; exits 1 if it is not.",
        )

    def handle(self, **options: Any) -> None:
        files = state_directory.current_state()
        running = find_running(files)
        if running is None:
            self.stdout.write("not running")
            sys.exit(NOT_RUNNING)
        pid, run = running
        is_ready = not options["ready"]
        if run is not None and not is_ready:
            url = f"{run.url}/health/ready"
            is_ready = health_probe.is_answering(url, seconds=READY_SECONDS)
        word = "running" if run is not None and run.is_serving else "starting"
        title = f"{word} (pid {pid})" + ("" if is_ready else ", not ready")
        details = [] if run is None else _describe_run(run, files)
        config = self.config_path(options)
        if run is not None and options["config"] and not is_serving_config(run, config):
            details.insert(0, f"  serves another YAML than {describe_path(config)}")
        # In one write, because a reader such as `head -1` may exit after one line.
        self.stdout.write("\n".join([title, *details]))
        if not is_ready:
            sys.exit(NOT_READY)


def _describe_run(run: RunRecord, files: StateDir) -> list[str]:
    """Return a line for each file, address and child of a running server."""
    log = describe_path(files.log) if run.is_detached else "its terminal"
    children = run.children
    width = max((len(child.name) for child in children), default=0)
    return [
        f"  config: {describe_path(Path(run.config))}",
        f"  log:    {log}",
        f"  url:    {run.url}/v1",
        *(f"  {child.name:<{width}}  {describe_child(child)}" for child in children),
        *describe_sidecars(run, files),
        *([NO_BROKER] if run.lacks_broker else []),
        *(f"  problem: {WARNINGS.get(each, each)}" for each in list_warnings(run)),
        *(f"  memory: {alert}" for alert in list_memory_alerts(Path(run.config))),
    ]


def describe_sidecars(run: RunRecord, files: StateDir) -> Iterator[str]:
    """Yield a line for each sidecar of a running server."""
    record = sidecar_records.read_record(files.sidecars)
    pids = {
        child.pid for child in run.children if child.name == sidecar_activation.NAME
    }
    if record is None or record.pid not in pids:
        return  # A killed process wrote the record.
    width = max((len(sidecar.name) for sidecar in record.sidecars), default=0)
    for sidecar in record.sidecars:
        yield f"    {sidecar.name:<{width}}  {describe_child(sidecar)}"


def describe_child(child: ChildRecord) -> str:
    """Return the state of a child, with the reason if it does not run."""
    match child.state:
        case "running":
            return _describe_process(child)
        case "waiting":
            seconds = max(0, math.ceil(child.due_at - time.time()))
            restarts = _describe_restarts(child.restarts)
            return f"restarting in {seconds} s, {restarts}: {child.reason}"
        case "finished" | "failed":
            return f"{child.state}: {child.reason}"
        case _:
            assert_never(child.state)


def _describe_restarts(count: int) -> str:
    return f"{count} restart{'' if count == 1 else 's'}"


def list_warnings(run: RunRecord) -> list[str]:
    """Return the codes of problems of the whole installation."""
    url = f"{run.url}/health/ready"
    return health_probe.read_warnings(url) if run.is_serving else []


def list_memory_alerts(config: Path) -> list[str]:
    """Return the alerts about memory; none if the YAML is invalid."""
    try:
        users = memory_settings.resolve_for_users(loader.load_file(config))
    except ConfigInvalid:
        return []
    found = checks.find_alerts(users) if users is not None else ()
    return [text for _, text in found]


def _describe_process(child: ChildRecord) -> str:
    """Return a child's pid, uptime and number of restarts."""
    seconds = max(0, int(time.time() - child.created_at))
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    uptime = f"{hours}h {minutes}m" if hours else f"{minutes}m {seconds}s"
    return f"pid {child.pid}, up {uptime}, {_describe_restarts(child.restarts)}"
