"""`coulisse doctor`: its output, its exit code, its time limit and its secrets."""

import errno
import json
import os
import time
from collections.abc import Iterator
from io import StringIO
from typing import Any

import pytest
from django.core import checks
from django.core.management import call_command

from config.sections import Config
from core.text import redaction
from processes.doctor import runner
from providers.registry import LOCAL_MODEL_URL
from tests.processes.conftest import Project

HERE = __name__
SECRET = "q7Vd2mXw9Lr4TzK8bNf3HcYsPzR5"


def pass_check(config: Config | None) -> Iterator[checks.CheckMessage]:
    yield checks.Info("fine" if config is None else "fine, with a configuration")


def warn(_: Config | None) -> Iterator[checks.CheckMessage]:
    yield checks.Warning("not so\nfine", hint="improve it")


def fail(_: Config | None) -> Iterator[checks.CheckMessage]:
    yield checks.Error("wrong", hint="repair it")


def crash(_: Config | None) -> Iterator[checks.CheckMessage]:
    yield checks.Info("begun")
    raise OSError(errno.ENOSPC, f"no space for {SECRET}")


def hang(_: Config | None) -> Iterator[checks.CheckMessage]:
    yield checks.Info("begun")
    time.sleep(60)


def quote_secret(_: Config | None) -> Iterator[checks.CheckMessage]:
    yield checks.Error(
        f"redis://:{SECRET}@broker and {SECRET}", hint=f"Bearer {SECRET}"
    )


def run(*arguments: str) -> tuple[str, int]:
    """Return the output and the exit code."""
    output = StringIO()
    try:
        call_command("doctor", *arguments, stdout=output)
    except SystemExit as exc:
        return output.getvalue(), int(exc.code or 0)
    return output.getvalue(), 0


@pytest.fixture
def use(project: Project, settings) -> Any:
    """Return a function that replaces the checks by some of this module."""

    def use(*names: str) -> None:
        settings.COULISSE_DOCTOR = {name: f"{HERE}.{name}" for name in names}

    return use


def test_findings_are_printed_with_remedies(use):
    use("pass_check", "warn", "fail")
    output, code = run()
    assert output.splitlines() == [
        "ok       pass_check: fine, with a configuration",
        "warning  warn: not so fine",
        "         → improve it",
        "problem  fail: wrong",
        "         → repair it",
        "",
        "problems: 1, warnings: 1",
    ]
    assert code == 1


def test_warnings_alone_exit_with_0(use):
    use("pass_check", "warn")
    assert run()[1] == 0


def test_json_has_all_findings(use):
    use("pass_check", "fail")
    output, code = run("--json")
    assert json.loads(output) == {
        "ok": False,
        "findings": [
            {
                "check": "pass_check",
                "level": "ok",
                "message": "fine, with a configuration",
                "remedy": "",
            },
            {
                "check": "fail",
                "level": "problem",
                "message": "wrong",
                "remedy": "repair it",
            },
        ],
    }
    assert code == 1


def test_check_that_crashes_ends_no_other(use):
    redaction.register_secrets([SECRET])
    use("crash", "pass_check")
    output, code = run()
    assert "ok       crash: begun" in output
    assert "problem  crash: it failed: OSError" in output
    assert "pass_check: fine" in output
    assert SECRET not in output
    assert code == 1


def test_check_that_hangs_is_a_problem_at_the_time_limit(use):
    use("hang", "pass_check")
    started_at = time.monotonic()
    output, code = run("--timeout", "0.3")
    assert time.monotonic() - started_at < 20
    assert "problem  hang: it has not ended" in output
    assert "pass_check: fine" in output
    assert code == 1


def test_secrets_are_never_shown(use):
    redaction.register_secrets([SECRET])
    use("quote_secret")
    for arguments in ((), ("--json",)):
        assert SECRET not in run(*arguments)[0]


def test_invalid_yaml_ends_no_other_check(project, use, settings):
    project.config.write_text("agents: 3\n")
    use("pass_check")
    settings.COULISSE_DOCTOR |= {
        "configuration": "processes.doctor.host_checks.check_configuration"
    }
    output, code = run()
    assert "pass_check: fine\n" in output
    assert "problem  configuration: coulisse.yaml:1:1: agents: must be a list" in output
    assert code == 1


@pytest.mark.parametrize("value", ["0", "601", "x", "nan"])
def test_time_limit_is_bounded(use, value, capsys):
    use("pass_check")
    with pytest.raises(BaseException, match="timeout"):
        run("--timeout", value)


def test_all_checks_exist(settings):
    for path in (*settings.COULISSE_DOCTOR.values(), *settings.COULISSE_DOCTOR_ASK):
        if "." in path:
            assert callable(runner.import_string(path))


def test_checks_of_a_stopped_server_are_warnings(project, monkeypatch):
    """Nothing that `start` repairs is a problem, and no secret of the YAML is shown."""
    for name in [name for name in os.environ if name.startswith("COULISSE_")]:
        monkeypatch.delenv(name)
    project.config.write_text(
        project.config.read_text().replace(
            'openai: {base_url: "', f'openai: {{api_key: {SECRET}, base_url: "'
        )
    )
    finished = project.run("doctor", "--json")
    assert SECRET not in finished.stdout + finished.stderr
    found = json.loads(finished.stdout)["findings"]
    problems = [each for each in found if each["level"] == "problem"]
    assert problems == []
    assert finished.returncode == 0
    levels = {each["check"]: each["level"] for each in found}
    for name in ("server", "database"):
        assert levels[name] == "warning", name


def show_local_model(_: Config | None) -> Iterator[checks.CheckMessage]:
    yield checks.Info(os.environ[LOCAL_MODEL_URL])


def test_models_are_asked_of_the_running_server(record_run, use, settings, monkeypatch):
    monkeypatch.setenv(LOCAL_MODEL_URL, "http://127.0.0.1:1/v1")
    record_run(local_model_url="http://127.0.0.1:4321/v1")
    use("pass_check")
    settings.COULISSE_DOCTOR_ASK = {"models": f"{HERE}.show_local_model"}
    assert "models" not in run()[0]
    assert "ok       models: http://127.0.0.1:4321/v1" in run("--ask")[0]
