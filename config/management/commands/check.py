from collections.abc import Iterable, Iterator
from typing import Any

from django.core.management.base import SystemCheckError
from django.core.management.commands.check import Command as DjangoCheck

from config import live
from config.errors import ConfigInvalid
from config.loading import reader, resolution
from config.management.base import ConfigCommand
from config.sections import Config, Problem

COUNTED_SECTIONS = ("agents", "judges", "experiments", "providers")
"""Source: the output line in the reference."""
OPTIONAL_SECTIONS = ("mcp", "triggers", "sidecars", "smoke_tests")
"""Counted only if present."""
SECTION_LABELS = {"mcp": "MCP servers", "smoke_tests": "smoke tests"}


class Command(ConfigCommand, DjangoCheck):
    help = "Checks the YAML file and the installation for problems."

    def handle(self, *app_labels: Any, **options: Any) -> None:
        if app_labels or options["tags"] or options["list_tags"]:
            super().handle(*app_labels, **options)
            return
        path = self.config_path(options)
        try:
            config = live.read_effective(path)
        except ConfigInvalid as exc:
            # Django would sort them alphabetically.
            raise SystemCheckError("\n".join(map(_problem_line, exc.problems))) from exc
        super().handle(*app_labels, **options)
        shown = options.get("config") or reader.display_path(path)
        line = f"ok — {shown} ({_count_entries(config, COUNTED_SECTIONS)})"
        others = [key for key in OPTIONAL_SECTIONS if config.values.get(key)]
        if others:
            line += f", {_count_entries(config, others)}"
        self.stdout.write(line)
        for line in _override_lines(config):
            self.stdout.write(line)

    def check(self, *args: Any, **kwargs: Any) -> None:
        # This command prints its own success line.
        super().check(*args, **{**kwargs, "display_num_errors": False})


def _problem_line(problem: Problem) -> str:
    prefix = f"{problem.position}: " if problem.position else ""
    return f"{prefix}({problem.code}) {problem.message}"


def _override_lines(config: Config) -> Iterator[str]:
    """Return the lines about overrides, if the database has any."""
    count = len(config.overlays.entries)
    if count:
        yield f"with {count} override{'' if count == 1 else 's'} from the studio"
    for each in config.rejected_overrides:
        yield f"warning: {resolution.rejected_label(each)} is rejected: {each.reason}"


def _count_entries(config: Config, keys: Iterable[str]) -> str:
    return ", ".join(
        f"{len(config.values.get(key, ()))} {SECTION_LABELS.get(key, key)}"
        for key in keys
    )
