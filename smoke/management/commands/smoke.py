"""`manage.py smoke`: runs smoke tests, and shows their results."""

import uuid
from argparse import ArgumentParser
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser

from config import live
from config.management import config_option
from config.management.database_command import INTERRUPTED, DatabaseCommand
from config.validation.suggestions import did_you_mean
from core.ids import UserId
from core.runtime import sigint
from smoke.config import SMOKE_TESTS, SmokeTestConfig
from smoke.errors import SmokeTestUnknown
from smoke.execution import local_runner, run_lifecycle
from smoke.models import SmokeLine, SmokeRun
from smoke.reports import junit, run_queries, serializers, terminal

EXIT_UNMET = 1
EXIT_BROKEN = 2
DEFAULT_LIMIT = 20


class Command(DatabaseCommand):
    """Runs, lists or shows smoke tests."""

    _has_concluded = False
    """Whether all runs ended, so that a failure is their verdict."""

    help = "Have synthetic users talk to agents; list and show what came of it."

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        add = config_option.add_subcommands(parser)
        _declare_run(add("run", "Run tests and wait for what comes of them."))
        _declare_list(add("list", "List the tests, or the runs of one."))
        _declare_show(add("show", "Show a run with all that was said."))

    def execute(self, *args: Any, **options: Any) -> str | None:
        try:
            return super().execute(*args, **options)
        except CommandError as exc:
            # A missing verdict must differ from a failed one.
            if options["what"] == "run" and not self._has_concluded:
                exc.returncode = max(exc.returncode, EXIT_BROKEN)
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
        # Known before the launch: an interrupt at any moment leaves no run behind.
        ids = [uuid.uuid4() for _ in tests]
        with sigint.defer_sigint() as heed:
            try:
                self._launch(zip(tests, ids, strict=True), heed, options)
                if options["wait"]:
                    self._watch_runs(run_queries.load_batches(ids), heed, options)
            except KeyboardInterrupt as exc:
                told = self._cancel(ids)
                raise CommandError(told, returncode=INTERRUPTED) from exc
            except BaseException:
                self._cancel(ids)
                raise
        if options["wait"]:
            self._print_results(run_queries.load_batches(ids), options)
        else:
            self._print_queued(run_queries.load_batches(ids), options)

    def _launch(
        self,
        tests: Iterable[tuple[SmokeTestConfig, uuid.UUID]],
        heed: Callable[[], None],
        options: dict[str, Any],
    ) -> None:
        count = options["repetitions"]
        for test, id_ in tests:
            heed()
            batch = run_lifecycle.launch_test(
                test, origin="command", repetitions=count, batch=id_
            )
            self._write_progress(terminal.launch_line(batch), options)
        heed()

    def _watch_runs(
        self,
        batches: list[list[SmokeRun]],
        heed: Callable[[], None],
        options: dict[str, Any],
    ) -> None:
        """Run the conversations in this process until they and their scores are
        complete.
        """
        ids = [run.pk for batch in batches for run in batch]
        users = [UserId(run.user_id) for batch in batches for run in batch]
        with local_runner.work_locally(users):
            try:
                for each in local_runner.watch_runs(ids, heed):
                    self._print_progress(each, options)
            except BaseException:
                # Before the wait for tasks, so that they are cancelled at once.
                run_lifecycle.cancel_runs(ids)
                raise

    def _cancel(self, batches: Collection[uuid.UUID]) -> str:
        """Cancel the open runs of these batches; return a summary."""
        found = [run for batch in run_queries.load_batches(batches) for run in batch]
        run_lifecycle.cancel_runs([run.pk for run in found])
        # Read again, to include runs that were cancelled before.
        found = [run for batch in run_queries.load_batches(batches) for run in batch]
        return terminal.interruption_line(found)

    def _print_queued(
        self, batches: list[list[SmokeRun]], options: dict[str, Any]
    ) -> None:
        self._write_progress(
            "a worker holds them; `smoke show RUN` tells how far", options
        )
        if options["json"]:
            self.write_json(
                {"batches": [serializers.serialize_batch(each) for each in batches]}
            )

    def _print_progress(
        self, each: SmokeLine | SmokeRun, options: dict[str, Any]
    ) -> None:
        if isinstance(each, SmokeLine):
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
            self.write_json(
                {"batches": [serializers.serialize_batch(each) for each in batches]}
            )
        else:
            for batch in batches:
                for line in terminal.summary_lines(batch):
                    self.stdout.write(line)
        outcomes = [serializers.run_outcome(run) for batch in batches for run in batch]
        if (
            broken := len(outcomes)
            - outcomes.count("passed")
            - outcomes.count("failed")
        ):
            told = f"{broken} of {len(outcomes)} conversations did not come to an end"
            raise CommandError(told, returncode=EXIT_BROKEN)
        if failed := outcomes.count("failed"):
            told = f"{failed} of {len(outcomes)} conversations are not as expected"
            self._has_concluded = True
            raise CommandError(told, returncode=EXIT_UNMET)

    # Listing.

    def _list(self, options: dict[str, Any]) -> None:
        if options["limit"] < 1:
            raise CommandError("--limit must be at least 1")
        name = options["name"]
        if name is None and not options["runs"]:
            self._list_tests(options)
            return
        found = run_queries.newest_runs(test=name, limit=options["limit"])
        if options["json"]:
            self.write_json({"runs": [serializers.serialize_run(run) for run in found]})
            return
        for run in found:
            self.stdout.write(terminal.run_line(run))
        if not found:
            self.stdout.write("there are no runs")

    def _list_tests(self, options: dict[str, Any]) -> None:
        tests = live.current().get(SMOKE_TESTS)
        last = {name: run_queries.last_batch(name) for name in tests}
        if options["json"]:
            told = [
                {
                    "name": name,
                    "target": test.target,
                    "last": serializers.serialize_batch(last[name])
                    if last[name]
                    else None,
                }
                for name, test in tests.items()
            ]
            self.write_json({"tests": told})
            return
        for name, test in tests.items():
            count = test.repetitions
            times = "once" if count == 1 else f"{count} times"
            self.stdout.write(f"{name}  with {test.target}, {times}")
            for line in terminal.summary_lines(last[name]) if last[name] else ():
                self.stdout.write(f"{terminal.INDENT}{line}")
        if not tests:
            self.stdout.write("there are no smoke tests: `smoke_tests:` is empty")

    def _show(self, options: dict[str, Any]) -> None:
        run = run_queries.find_run(options["run"])
        if options["json"]:
            self.write_json(serializers.serialize_transcript(run))
            return
        for line in terminal.transcript_lines(run):
            self.stdout.write(line)


def _declare_run(parser: ArgumentParser) -> None:
    """Declare the arguments of a run."""
    parser.add_argument("name", metavar="NAME", nargs="*", help="The tests to run.")
    parser.add_argument("--all", action="store_true", help="Run every test.")
    parser.add_argument(
        "--repetitions",
        type=_parse_positive,
        metavar="NUMBER",
        help="Conversations of each, in place of the test's own.",
    )
    parser.add_argument(
        "--no-wait",
        dest="wait",
        action="store_false",
        help="Leave them to a worker that runs.",
    )
    parser.add_argument(
        "--wait", action="store_true", default=True, help="Wait (the default)."
    )
    parser.add_argument(
        "--quiet", action="store_true", help="Print what they came to and no more."
    )
    parser.add_argument(
        "--json", action="store_true", help="Print it as JSON, progress on stderr."
    )
    parser.add_argument("--junit", metavar="FILE", help="Write JUnit's XML there.")


def _declare_list(parser: ArgumentParser) -> None:
    """Declare the filters of the list."""
    parser.add_argument("name", metavar="NAME", nargs="?", help="The runs of a test.")
    parser.add_argument("--runs", action="store_true", help="The runs of all tests.")
    parser.add_argument(
        "--limit",
        type=int,
        default=DEFAULT_LIMIT,
        help=f"How many; {DEFAULT_LIMIT} by default.",
    )
    parser.add_argument("--json", action="store_true", help="Print it as JSON.")


def _declare_show(parser: ArgumentParser) -> None:
    """Declare the argument that names the run."""
    parser.add_argument("run", metavar="RUN", help="Its id, or how that begins.")
    parser.add_argument("--json", action="store_true", help="Print it as JSON.")


def _parse_positive(text: str) -> int:
    """Return a positive number; raises ValueError."""
    number = int(text)
    if number < 1:
        raise ValueError(text)
    return number


def select_tests(names: Sequence[str], *, is_all: bool) -> list[SmokeTestConfig]:
    """Return the tests of these names; raises `SmokeTestUnknown`, CommandError."""
    tests = live.current().get(SMOKE_TESTS)
    if is_all == bool(names):
        known = ", ".join(tests) or "none"
        raise CommandError(f"name the tests to run, or pass --all; there are: {known}")
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
