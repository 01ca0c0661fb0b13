"""`coulisse doctor`: finds out why an installation does not work."""

import logging
import os
import sys
from argparse import ArgumentTypeError
from collections import Counter
from typing import Any

import orjson
from django.conf import settings
from django.core.management.base import CommandParser

from config.errors import ConfigInvalid
from config.loading import loader
from config.management.base import ConfigCommand
from core.text.sanitization import escape_invisible
from processes.doctor import runner
from processes.doctor.runner import Finding
from processes.server.running_server import find_running
from processes.supervision import state_directory
from providers.registry import LOCAL_MODEL_URL

DEFAULT_SECONDS = 30.0


class Command(ConfigCommand):
    """Prints the findings of all checks, with a remedy for each problem."""

    help = (
        "Check configuration, database, broker, processes, disk, MCP servers and "
        "providers. Exits 1 if there is a problem."
    )
    needs_database = False

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("--json", action="store_true", help="Print JSON.")
        parser.add_argument(
            "--ask",
            action="store_true",
            help="Also ask each model in use for one token, which costs little.",
        )
        parser.add_argument(
            "--timeout",
            type=_parse_seconds,
            default=DEFAULT_SECONDS,
            metavar="SECONDS",
            help="Time limit of all checks together (default: 30).",
        )

    def handle(self, **options: Any) -> None:
        # The findings say what the log would.
        logging.disable(logging.CRITICAL)
        try:
            self._run(options)
        finally:
            logging.disable(logging.NOTSET)

    def _run(self, options: dict[str, Any]) -> None:
        try:
            config = loader.load_file(self.config_path(options))
        except ConfigInvalid:
            config = None  # The first check reports why.
        paths = dict(settings.COULISSE_DOCTOR)
        if options["ask"]:
            _find_local_model()
            paths |= settings.COULISSE_DOCTOR_ASK
        findings = []
        for finding in runner.run_checks(paths, config, seconds=options["timeout"]):
            findings.append(finding)
            if not options["json"]:
                self._print(finding)
        counts = Counter(finding.level for finding in findings)
        if options["json"]:
            self._print_json(findings, is_ok=not counts["problem"])
        else:
            count, warnings = counts["problem"], counts["warning"]
            self.stdout.write(f"\nproblems: {count}, warnings: {warnings}")
        if counts["problem"]:
            sys.exit(1)

    def _print(self, finding: Finding) -> None:
        style = {
            "ok": self.style.SUCCESS,
            "warning": self.style.WARNING,
            "problem": self.style.ERROR,
        }[finding.level]
        message = escape_invisible(" ".join(finding.message.split()))
        self.stdout.write(f"{style(f'{finding.level:<8}')} {finding.check}: {message}")
        if finding.remedy:
            remedy = escape_invisible(" ".join(finding.remedy.split()))
            self.stdout.write(f"{'':<8} → {remedy}")

    def _print_json(self, findings: list[Finding], *, is_ok: bool) -> None:
        data = {"ok": is_ok, "findings": findings}
        self.stdout.write(orjson.dumps(data, option=orjson.OPT_INDENT_2).decode())


def _find_local_model() -> None:
    """Use the model of the running server, whose address only its processes know."""
    running = find_running(state_directory.current_state())
    run = running[1] if running else None
    if run is not None and run.local_model_url:
        os.environ[LOCAL_MODEL_URL] = run.local_model_url


def _parse_seconds(text: str) -> float:
    seconds = float(text)
    if not 0 < seconds <= 600:
        raise ArgumentTypeError("must be more than 0 and at most 600")
    return seconds
