"""`coulisse smoke`: runs smoke tests, and shows their results."""

import uuid
from argparse import ArgumentParser
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser

from config import live
from config.management import config_option
from config.management.base import INTERRUPTED
from config.management.database_command import DatabaseCommand
from config.validation.suggestions import did_you_mean
from core.runtime import sigint
from smoke.config import SMOKE_TESTS, SmokeTestConfig
from smoke.errors import SmokeTestUnknown
from smoke.execution import local_runner
from smoke.models import SmokeMessage, SmokeRun
from smoke.reports import batches as figures
from smoke.reports import junit, terminal, transcript
from smoke.schemas import SmokeBatchReport, SmokeRunObject, SmokeTranscript
from tasks.queue import publisher

EXIT_FAILED = 1
EXIT_ABORTED = 2
DEFAULT_LIMIT = 20


class Command(DatabaseCommand):
    help = "Runs, lists and shows smoke tests: conversations with synthetic users."

    _has_verdicts = False
    """Whether every run has a verdict, so that the exit code reports it."""

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        add = config_option.add_subcommands(parser)
        _add_run_arguments(add("run", "Run tests and wait for the results."))
        _add_list_arguments(add("list", "List the tests, or the runs of one."))
        _add_show_arguments(add("show", "Show a run with its messages."))

    def execute(self, *args: Any, **options: Any) -> str | None:
        try:
            return super().execute(*args, **options)
        except CommandError as exc:
            # A missing verdict must differ from a failed one.
            if options["what"] == "run" and not self._has_verdicts:
                exc.returncode = max(exc.returncode, EXIT_ABORTED)
            raise

    def handle(self, **options: Any) -> None:
        match options["what"]:
            case "run":
                self._run(options)
            case "list":
                self._list(options)
            case "show":
                self._show(options)

    # Running.

    def _run(self, options: dict[str, Any]) -> None:
        tests = select_tests(options["name"], is_all=options["all"])
        if options["junit"]:
            # Before the launch, when nothing is lost yet.
            write_file(Path(options["junit"]), b"")
        if options["wait"]:
            # Before the launch: the tasks run here, so no worker needs a permit.
            publisher.use_sender(lambda kind: None)
        # Known before the launch: an interrupt at any moment leaves no run behind.
        ids = [uuid.uuid4() for _ in tests]
        with sigint.defer_sigint() as check_interrupt:
            try:
                self._launch(zip(tests, ids, strict=True), check_interrupt, options)
                if options["wait"]:
                    runs = [run for batch in _load_batches(ids) for run in batch]
                    show = partial(self._print_progress, options)
                    local_runner.run_locally(runs, show, check_interrupt)
            except KeyboardInterrupt as exc:
                summary = self._cancel(ids)
                raise CommandError(summary, returncode=INTERRUPTED) from exc
            except BaseException:
                self._cancel(ids)
                raise
        if options["wait"]:
            self._print_results(_load_batches(ids), options)
        else:
            self._print_queued(_load_batches(ids), options)

    def _launch(
        self,
        tests: Iterable[tuple[SmokeTestConfig, uuid.UUID]],
        check_interrupt: Callable[[], None],
        options: dict[str, Any],
    ) -> None:
        count = options["repetitions"]
        for test, id_ in tests:
            check_interrupt()
            batch = SmokeRun.objects.launch(
                test, origin="command", repetitions=count, batch=id_
            )
            self._write_progress(terminal.launch_line(batch), options)
        check_interrupt()

    def _cancel(self, batches: Collection[uuid.UUID]) -> str:
        """Cancel the open runs of these batches; return a summary."""
        found = SmokeRun.objects.filter(batch__in=batches)
        found.cancel()
        # Read again, to include runs that were cancelled before.
        return terminal.interruption_line(list(found.all()))

    def _print_queued(
        self, batches: list[list[SmokeRun]], options: dict[str, Any]
    ) -> None:
        self._write_progress(
            "queued for a worker; `smoke show RUN` shows the progress", options
        )
        if options["json"]:
            self._write_batches(batches)

    def _write_batches(self, batches: list[list[SmokeRun]]) -> None:
        self.write_json({"batches": [_batch_as_json(each) for each in batches]})

    def _print_progress(
        self, options: dict[str, Any], each: SmokeMessage | SmokeRun
    ) -> None:
        if isinstance(each, SmokeMessage):
            self._write_progress(
                f"{terminal.short_id(each.run)}  {terminal.message_line(each)}", options
            )
            return
        for line in terminal.ending_lines(each):
            self._write_progress(f"{terminal.short_id(each)}  {line}", options)

    def _write_progress(self, line: str, options: dict[str, Any]) -> None:
        """Print progress: on stderr if stdout is for programs."""
        if options["json"]:
            self.stderr.write(line, str)
        elif not options["quiet"]:
            self.stdout.write(line)
            self.stdout.flush()

    def _print_results(
        self, batches: list[list[SmokeRun]], options: dict[str, Any]
    ) -> None:
        if options["junit"]:
            write_file(Path(options["junit"]), junit.as_xml(batches))
        if options["json"]:
            self._write_batches(batches)
        else:
            for batch in batches:
                for line in terminal.summary_lines(batch):
                    self.stdout.write(line)
        outcomes = [run.outcome for batch in batches for run in batch]
        failed = outcomes.count("failed")
        aborted = len(outcomes) - outcomes.count("passed") - failed
        if aborted:
            message = f"{aborted} of {len(outcomes)} conversations were aborted"
            raise CommandError(message, returncode=EXIT_ABORTED)
        if failed:
            self._has_verdicts = True
            message = f"{failed} of {len(outcomes)} conversations failed"
            raise CommandError(message, returncode=EXIT_FAILED)

    # Listing.

    def _list(self, options: dict[str, Any]) -> None:
        name = options["name"]
        if name is None and not options["runs"]:
            self._list_tests(options)
            return
        runs = SmokeRun.objects.newest_first()
        if name is not None:
            runs = runs.filter(test=name)
        found = list(runs[: options["limit"]])
        if options["json"]:
            self.write_json({"runs": [_as_json(SmokeRunObject, run) for run in found]})
            return
        for run in found:
            self.stdout.write(terminal.run_line(run))
        if not found:
            self.stdout.write("there are no runs")

    def _list_tests(self, options: dict[str, Any]) -> None:
        tests = live.current().get(SMOKE_TESTS)
        last = SmokeRun.objects.last_batches(tests)
        if options["json"]:
            entries = [
                {
                    "name": name,
                    "target": test.target,
                    "last": _batch_as_json(last[name]) if name in last else None,
                }
                for name, test in tests.items()
            ]
            self.write_json({"tests": entries})
            return
        for name, test in tests.items():
            count = test.repetitions
            times = "once" if count == 1 else f"{count} times"
            self.stdout.write(f"{name}  with {test.target}, {times}")
            for line in terminal.summary_lines(last[name]) if name in last else ():
                self.stdout.write(f"{terminal.INDENT}{line}")
        if not tests:
            self.stdout.write("there are no smoke tests: `smoke_tests:` is empty")

    def _show(self, options: dict[str, Any]) -> None:
        run = SmokeRun.objects.find(options["run"])
        if options["json"]:
            run.transcript = transcript.load_messages(run)
            self.write_json(_as_json(SmokeTranscript, run))
            return
        for line in terminal.transcript_lines(run):
            self.stdout.write(line)


def _add_run_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", nargs="*", help="The tests to run.")
    parser.add_argument("--all", action="store_true", help="Run every test.")
    parser.add_argument(
        "--repetitions",
        type=config_option.parse_count,
        metavar="NUMBER",
        help="Conversations per test; overrides the test's own number.",
    )
    parser.add_argument(
        "--no-wait",
        dest="wait",
        action="store_false",
        help="Queue the tests for a worker and return.",
    )
    parser.add_argument(
        "--wait",
        action="store_true",
        default=True,
        help="Wait for the results (the default).",
    )
    parser.add_argument("--quiet", action="store_true", help="Print only the results.")
    parser.add_argument(
        "--json", action="store_true", help="Print JSON; progress goes to stderr."
    )
    parser.add_argument(
        "--junit", metavar="FILE", help="Write the results to a file as JUnit XML."
    )


def _add_list_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "name", metavar="NAME", nargs="?", help="List the runs of this test."
    )
    parser.add_argument(
        "--runs", action="store_true", help="List the runs of all tests."
    )
    config_option.add_limit(parser, "runs", default=DEFAULT_LIMIT)
    parser.add_argument("--json", action="store_true", help="Print JSON.")


def _add_show_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN", help="The run's id, or its beginning.")
    parser.add_argument("--json", action="store_true", help="Print JSON.")


def _load_batches(batches: Collection[uuid.UUID]) -> list[list[SmokeRun]]:
    return SmokeRun.objects.filter(batch__in=batches).batches()


def _batch_as_json(runs: Sequence[SmokeRun]) -> dict[str, Any]:
    return figures.describe_batch(runs, SmokeBatchReport).model_dump(mode="json")


def _as_json(shape: type[SmokeRunObject], run: SmokeRun) -> dict[str, Any]:
    return shape.model_validate(run).model_dump(mode="json")


def select_tests(names: Sequence[str], *, is_all: bool) -> list[SmokeTestConfig]:
    """Return the tests of these names; raises `SmokeTestUnknown`, CommandError."""
    tests = live.current().get(SMOKE_TESTS)
    if is_all == bool(names):
        known = ", ".join(tests) or "none"
        raise CommandError(
            f"name the tests to run, or pass --all; known tests: {known}"
        )
    for name in names:
        if name not in tests:
            raise SmokeTestUnknown(
                f"there is no smoke test '{name}'{did_you_mean(name, tests)}"
            )
    chosen = list(tests) if is_all else list(dict.fromkeys(names))
    if not chosen:
        raise CommandError("there are no smoke tests: `smoke_tests:` is empty")
    return [tests[name] for name in chosen]


def write_file(path: Path, document: bytes) -> None:
    """Write a file; raises CommandError."""
    try:
        path.write_bytes(document)
    except OSError as exc:
        raise CommandError(f"cannot write {path}: {exc.strerror}") from exc
