"""`coulisse smoke`: run, list, show."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from urllib.parse import urlsplit
from xml.etree import ElementTree as ET

import pytest
from django.conf import settings
from django.core.management import CommandError, call_command
from django.db import connection

from config.loading import secrets_file
from smoke.models import SmokeRun
from smoke.models.run_queries import SmokeRunQuerySet
from tasks.models import OPEN, Task
from tasks.worker import local_worker
from testing.scripted_provider import FakeProvider
from testing.wires import ScriptedAnswer
from tests.judges.sample_judges import answer
from tests.smoke.conftest import RunWorker
from tests.smoke.scripted_models import SMOKE_CONFIG, ScriptedModels, with_test
from tests.tasks.conftest import TIMEOUT_SECONDS

pytestmark = pytest.mark.database

UNKNOWN_RUN = "5f8b1c3e-7a52-4d0e-9b64-2c1f3e8a9d07"

Configure = Callable[[str], None]


def smoke(*words: str) -> tuple[str, str, int]:
    """Return what a command says, what it says on stderr, and its exit code."""
    out, err = StringIO(), StringIO()
    code = 0
    try:
        call_command("smoke", *words, stdout=out, stderr=err)
    except CommandError as exc:
        code = exc.returncode
        err.write(str(exc))
    return out.getvalue(), err.getvalue(), code


# run


def test_run_without_a_worker_prints_progress(models: ScriptedModels):
    models.persona = ["Any plums?", "Thanks! [FIN]"]

    out, _, code = smoke("run", "plums")

    run = SmokeRun.objects.order_by("created_at").last()
    name = run.id.hex[:8]
    assert code == 0
    assert out.splitlines() == [
        f"plums: 1 conversation with assistant: {name}",
        f"{name}  persona    Any plums?",
        f"{name}  assistant  We have plums.",
        f"{name}  persona    Thanks! [FIN]",
        f"{name}  passed, 1 turn, the persona sent the stop marker, $0.000030",
        "plums: 1 passed, 0 failed, $0.000030",
    ]


def test_unmet_expectation_exits_with_1(models: ScriptedModels):
    models.judge = answer(accuracy=2, tone=9)

    out, err, code = smoke("run", "judged", "--repetitions", "2", "--quiet")

    assert code == 1
    assert err == "2 of 2 conversations failed"
    assert out.splitlines()[1:] == [
        "    judged  quality.accuracy  mean 2.00 of 4",
        "    judged  quality.tone  mean 9.00 of 4",
    ]


def test_errored_run_exits_with_2(models: ScriptedModels):
    models.agent = [ScriptedAnswer(status=500)]

    out, err, code = smoke("run", "plums")

    assert code == 2
    assert err == "1 of 1 conversations were aborted"
    assert "ABORTED, 0 turns" in out
    assert "    - provider 'openai' failed (HTTP 500)" in out


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["plum"], "there is no smoke test 'plum'; did you mean 'plums'?"),
        ([], "name the tests to run, or pass --all; known tests: plums, judged"),
        (["plums", "--all"], "name the tests to run, or pass --all"),
        (["plums", "--repetitions", "0"], "argument --repetitions"),
        (["plums", "--junit", "nowhere/x.xml"], "cannot write nowhere/x.xml"),
    ],
)
def test_invalid_arguments_exit_with_2(
    models: ScriptedModels, words: list[str], error: str
):
    _, err, code = smoke("run", *words)
    assert code == 2 or "argument" in error
    assert error in err


def test_unwritable_report_file_starts_no_run(models: ScriptedModels):
    smoke("run", "plums", "--junit", "nowhere/x.xml")
    assert not models.fake.requests


def test_json_goes_to_stdout_and_progress_to_stderr(models: ScriptedModels):
    out, err, code = smoke("run", "--all", "--json")

    plums, judged = json.loads(out)["batches"]
    assert code == 0
    assert (plums["passed"], plums["failed"], plums["aborted"]) == (1, 0, 0)
    assert judged["scores"]["judged"]["quality.accuracy"] == {"mean": 8, "count": 2}
    [run] = judged["runs"]
    assert (run["verdict"], run["stopped_because"]) == ("passed", "max_turns")
    assert run["cost_usd"] == pytest.approx(0.00002)
    assert "persona    More plums?" in err


def test_junit_report_is_written(models: ScriptedModels, tmp_path: Path):
    models.judge = answer(accuracy=2, tone=9)
    models.agent = ["Plums\x07 & <pears>."]
    path = tmp_path / "junit.xml"

    _, _, code = smoke("run", "--all", "--quiet", "--junit", str(path))

    assert code == 1
    plums, judged = ET.parse(path).getroot()
    assert (plums.get("tests"), plums.get("failures")) == ("1", "0")
    [case] = judged
    assert case.get("name") == "1 with judged"
    assert (
        case.find("failure")
        .get("message")
        .startswith("the mean of quality.accuracy is 2.00")
    )
    assert "assistant: Plums & <pears>." in case.find("system-out").text


def test_run_can_be_left_to_a_worker(models: ScriptedModels):
    out, _, code = smoke("run", "plums", "--no-wait")

    run = SmokeRun.objects.order_by("created_at").last()
    assert code == 0
    assert "queued for a worker" in out
    assert run.state == "queued"
    SmokeRun.objects.filter(pk=run.pk).cancel()


@pytest.mark.parametrize(
    ("words", "at", "remaining"),
    [
        (["--all"], "plums: 1 conversation", "1 of 1"),
        (["--all", "--no-wait"], "judged: 1 conversation", "2 of 2"),
        (["plums", "--repetitions", "3"], "persona  ", "3 of 3"),
        (["--all"], "passed, 3 turns", "1 of 2"),
    ],
)
def test_interrupt_cancels_every_run(
    models: ScriptedModels, monkeypatch, words: list[str], at: str, remaining: str
):
    """Between launches, too."""
    tasks = set(Task.objects.values_list("pk", flat=True))
    models.judge = ScriptedAnswer(hang="first_token")
    if "persona" in at:
        models.agent = [ScriptedAnswer(hang="first_token")]
    err = StringIO()

    # The command does not wait for hanging runs.
    monkeypatch.setattr(local_worker, "DRAIN_SECONDS", TIMEOUT_SECONDS)
    began = time.monotonic()
    with pytest.raises(CommandError) as caught:
        call_command("smoke", "run", *words, stdout=InterruptedOutput(at), stderr=err)

    assert caught.value.returncode == 130
    assert str(caught.value).startswith(
        f"interrupted: {remaining} conversations cancelled; `smoke list --runs`"
    )
    assert not Task.objects.exclude(pk__in=tasks).filter(state__in=OPEN).exists()
    assert time.monotonic() - began < TIMEOUT_SECONDS


def test_interrupt_before_the_first_launch_says_so(models: ScriptedModels, monkeypatch):
    def interrupted(*args: object, **options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(SmokeRunQuerySet, "launch", interrupted)
    _, err, code = smoke("run", "plums")
    assert (err, code) == ("interrupted: no conversation was launched", 130)


class InterruptedOutput(StringIO):
    """An output that raises KeyboardInterrupt when these words are written."""

    def __init__(self, words: str) -> None:
        super().__init__()
        self._words = words

    def write(self, text: str) -> int:
        if self._words in text:
            raise KeyboardInterrupt
        return super().write(text)


# list and show


def test_list_shows_tests_with_their_last_result(
    models: ScriptedModels, worker: RunWorker
):
    run = worker.run_test("judged")
    out, _, _ = smoke("list")
    assert "judged  with judged, once" in out
    assert "    judged: 1 passed, 0 failed, $0.000040" in out

    output = json.loads(smoke("list", "--json")[0])["tests"]
    assert [test["name"] for test in output] == ["plums", "judged"]
    assert output[1]["last"]["runs"][0]["id"] == str(run.pk)


def test_list_shows_runs_newest_first(models: ScriptedModels, worker: RunWorker):
    first, second = worker.run_test("judged"), worker.run_test("judged")

    out, _, _ = smoke("list", "judged", "--limit", "2")

    names = [line.split()[0] for line in out.splitlines()]
    assert names == [second.id.hex[:8], first.id.hex[:8]]
    assert "passed" in out
    assert "quality.accuracy 8.00" in out
    listed = json.loads(smoke("list", "--runs", "--limit", "1", "--json")[0])["runs"]
    assert listed[0]["id"] == str(second.pk)
    assert "at least 1" in smoke("list", "--limit", "0")[1]


def test_show_prints_the_whole_run(
    models: ScriptedModels, worker: RunWorker, configure: Configure
):
    configure(with_test("max_turns: 1\nexpect: {contains: [pears]}", target="boss"))
    ask = ScriptedAnswer((), tool_calls=[("tuned", {"message": "Plums?"})])
    models.agent = [ask, "None left.", "We have none.\n\x1b[2JSorry."]
    run = worker.run_test("mine")

    out, _, _ = smoke("show", run.id.hex[:8])

    assert "persona  " in out
    assert "    More plums?" in out
    assert '    > tuned {"message":"Plums?"}\n    < None left.' in out
    assert "    We have none.\n    \\x1b[2JSorry." in out
    assert "    - no reply contains 'pears'" in out
    output = json.loads(smoke("show", str(run.pk), "--json")[0])
    assert [line["speaker"] for line in output["transcript"]] == [
        "persona",
        "assistant",
    ]
    assert output["failures"] == ["no reply contains 'pears'"]


@pytest.mark.parametrize("text", [UNKNOWN_RUN, "plums", "abc", ""])
def test_show_refuses_an_unknown_run(models: ScriptedModels, text: str):
    _, err, code = smoke("show", text)
    assert code == 1
    assert "run" in err


# The command as a process.


def share_database(root: Path) -> dict[str, str]:
    """Have a process find this test's tables; return what its environment needs."""
    name = connection.settings_dict["NAME"]
    if connection.vendor == "sqlite":
        state = root / ".coulisse"
        state.mkdir(mode=0o700)
        (state / "coulisse-memory.db").symlink_to(name)
        return {"DATABASE_URL": ""}
    url = urlsplit(os.environ["DATABASE_URL"])
    keys = dict.fromkeys(secrets_file.KEYS, "k" * 43 + "=")
    return {**keys, "DATABASE_URL": url._replace(path=f"/{name}").geturl()}


def test_program_exits_with_the_result_code(
    models: ScriptedModels, fake: FakeProvider, tmp_path: Path
):
    """In a checkout of its own, as continuous integration has it."""
    path = tmp_path / "coulisse.yaml"
    path.write_text(
        SMOKE_CONFIG.replace("{fake}", fake.root_url)
        + "    stop_marker: '[FIN]'\n"
        + "    initial_message: 'Any plums?'\n"
    )
    models.agent = ["[FIN]"]
    models.judge = answer(accuracy=1, tone=1)
    ran = subprocess.run(
        [
            sys.executable,
            "manage.py",
            "smoke",
            "run",
            "judged",
            "--json",
            "-c",
            str(path),
        ],
        cwd=settings.BASE_DIR,
        env={**os.environ, **share_database(tmp_path)},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        check=False,
    )

    assert ran.returncode == 1, ran.stderr
    [batch] = json.loads(ran.stdout)["batches"]
    assert batch["runs"][0]["failures"] == [
        "the mean of quality.accuracy is 1.00 over 1 score (at least 7)"
    ]
    assert "CommandError: 1 of 1 conversations failed" in ran.stderr
    assert "Traceback" not in ran.stderr
    assert "broker is unavailable" not in ran.stderr


def test_program_exits_with_130_when_interrupted(
    models: ScriptedModels, fake: FakeProvider, tmp_path: Path
):
    path = tmp_path / "coulisse.yaml"
    path.write_text(SMOKE_CONFIG.replace("{fake}", fake.root_url))
    models.agent = [ScriptedAnswer(hang="first_token")]
    existing = set(SmokeRun.objects.values_list("pk", flat=True))
    with subprocess.Popen(
        [sys.executable, "manage.py", "smoke", "run", "--all", "-c", str(path)],
        cwd=settings.BASE_DIR,
        env={**os.environ, **share_database(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        first = process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=TIMEOUT_SECONDS)

    assert first.startswith("plums: 1 conversation with assistant: ")
    assert process.returncode == 130, err
    # After what tasks say that had begun by then.
    output = err.splitlines()[-1]
    assert re.fullmatch(r"CommandError: interrupted: . of . .* shows them", output), err
    remaining = SmokeRun.objects.filter(state__in=OPEN).values_list("pk", flat=True)
    assert set(remaining) <= existing
