"""The systems that `manage.py import` reads."""

from argparse import ArgumentParser
from typing import Any, Protocol

from imports.report import Report


class Source(Protocol):
    """A module that imports from one system."""

    HELP: str
    """What it imports, for `--help`."""

    def add_arguments(self, parser: ArgumentParser) -> None: ...

    def run(self, options: dict[str, Any], report: Report) -> None:
        """Import, and add to the report; raises `CoulisseError`.

        With `report.is_dry_run` it writes nothing and reports the same.
        """


SOURCES: dict[str, Source] = {}
"""By their names on the command line."""
