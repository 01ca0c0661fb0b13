"""The systems that `coulisse import` reads."""

from argparse import ArgumentParser
from typing import Any, Protocol

from imports import chatgpt, coulisse, litellm, openwebui
from imports.report import Report


class Source(Protocol):
    """A module that imports from one system."""

    HELP: str
    """What it imports, for `--help`."""

    def add_arguments(self, parser: ArgumentParser) -> None: ...

    def run(self, options: dict[str, Any], report: Report) -> None:
        """Import, and add to the report; raises `CoulisseError`.

        `config` of the options is the path of the YAML. With `report.is_dry_run` it
        writes nothing and reports the same.
        """


SOURCES: dict[str, Source] = {
    "chatgpt": chatgpt,
    "coulisse": coulisse,
    "litellm": litellm,
    "openwebui": openwebui,
}
"""By their names on the command line."""
