"""The checks of the YAML, the state directory, open files and the environment."""

import re
import resource
import tempfile
from collections import namedtuple

import pytest
from django.core import checks

from config.loading import loader
from processes.doctor import host_checks
from telemetry import doctor as telemetry_doctor
from tests.docs.pages import BASE
from tests.processes.conftest import Project

Usage = namedtuple("Usage", "total used free")


def texts(found, level=None) -> str:
    messages = [each for each in found if level is None or each.level == level]
    return "\n".join(f"{each.msg} → {each.hint}" for each in messages)


@pytest.fixture
def config(project: Project):
    return loader.load_file(project.config)


def test_valid_yaml_is_fine_and_system_checks_are_repeated(project, database):
    found = list(host_checks.check_configuration(None))
    assert texts(found, checks.INFO).startswith("coulisse.yaml is valid")
    assert "no price is known for openai/gpt-test" in texts(found, checks.WARNING)


def test_every_mistake_in_the_yaml_is_a_problem(project):
    project.config.write_text("agents: 3\nprovidrs: {}\n")
    found = list(host_checks.check_configuration(None))
    assert len(found) >= 2
    assert {each.level for each in found} == {checks.ERROR}
    assert "did you mean 'providers'" in texts(found)


def test_state_directory_is_writable(project):
    assert "is writable" in texts(host_checks.check_state_directory(None), checks.INFO)


def test_full_disk_is_a_problem(project, monkeypatch):
    full = open("/dev/full", "wb", buffering=0)  # noqa: SIM115 (the check closes it)
    monkeypatch.setattr(tempfile, "TemporaryFile", lambda **_: full)
    found = texts(host_checks.check_state_directory(None), checks.ERROR)
    assert "cannot be written: No space left on device" in found
    assert "make it writable" in found


@pytest.mark.parametrize(
    ("free", "level"),
    [(10 * 1024**3, checks.INFO), (500 * 1024**2, checks.WARNING), (9, checks.ERROR)],
)
def test_low_space_is_reported(project, monkeypatch, free, level):
    usage = Usage(0, 0, free)
    monkeypatch.setattr(host_checks.shutil, "disk_usage", lambda _: usage)
    [found] = host_checks.check_state_directory(None)
    assert found.level == level
    assert " free" in found.msg


def test_state_directory_of_other_users_is_a_warning(project):
    project.state.root.mkdir(mode=0o755)
    found = texts(host_checks.check_state_directory(None), checks.WARNING)
    assert "accessible to other users → run `chmod go-rwx" in found


@pytest.mark.parametrize(
    ("hard", "level"),
    [
        (resource.RLIM_INFINITY, checks.INFO),
        (5000, checks.INFO),
        (1024, checks.WARNING),
    ],
)
def test_open_files_suffice_for_the_connections(config, monkeypatch, hard, level):
    monkeypatch.setattr(resource, "getrlimit", lambda _: (100, hard))
    [found] = host_checks.check_open_files(config)
    assert found.level == level


def test_unknown_variable_is_a_warning_with_a_suggestion(config, monkeypatch):
    monkeypatch.setenv("COULISSE_LOG_LEVL", "debug")
    found = texts(host_checks.check_environment(config), checks.WARNING)
    assert "did you mean 'COULISSE_LOG_LEVEL'?" in found
    assert "debug" not in found


def test_variables_of_files_and_of_the_yaml_are_known(project, monkeypatch):
    monkeypatch.setenv("COULISSE_VAULT_KEY_FILE", "/run/secrets/vault")
    monkeypatch.setenv("COULISSE_OF_MINE", "word")
    project.config.write_text(
        project.config.read_text() + "vars: {mine: '${COULISSE_OF_MINE}'}\n"
    )
    config = loader.load_file(project.config)
    found = texts(host_checks.check_environment(config), checks.WARNING)
    assert "VAULT_KEY" not in found
    assert "OF_MINE" not in found


def test_documented_variables_are_known(settings):
    page = (BASE / "docs/running.md").read_text()
    table = page[page.index("## Environment") :]
    documented = set(re.findall(r"^\| `(COULISSE_\w+)`", table, re.M))
    assert documented
    assert documented <= set(settings.COULISSE_VARIABLES)


@pytest.mark.parametrize(
    ("path", "level"),
    [
        (".coulisse/requests.log", checks.INFO),
        ("missing/requests.log", checks.ERROR),
    ],
)
def test_request_log_needs_a_writable_directory(project, path, level):
    project.state.root.mkdir()
    project.config.write_text(
        f"{project.config.read_text()}\n"
        f"telemetry: {{request_log: {{enabled: true, path: {path}}}}}\n"
    )
    [found] = telemetry_doctor.check_request_log(loader.load_file(project.config))
    assert found.level == level


def test_request_log_that_is_off_is_not_checked(config):
    assert list(telemetry_doctor.check_request_log(config)) == []
