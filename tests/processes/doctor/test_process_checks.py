"""The checks of the broker, workers, beat, the local model and the public address."""

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest
from django.core import checks
from django_celery_beat.models import IntervalSchedule, PeriodicTask

from config.loading import loader
from processes.doctor import process_checks
from processes.server import health_probe, server_plan
from processes.supervision.run_state import ChildRecord
from tests.processes.doctor.test_host_checks import texts
from tests.providers.broker import run_broker

PASSWORD = "q7Vd2mXw9Lr4TzK8"


@pytest.fixture
def config(project):
    return loader.load_file(project.config)


@pytest.fixture
def broker(tmp_path, settings):
    with run_broker(tmp_path) as url:
        settings.REDIS_URL = url
        settings.COULISSE_OWNS_BROKER = False
        yield


@pytest.fixture
def no_broker(settings):
    settings.REDIS_URL = f"redis://:{PASSWORD}@127.0.0.1:9"
    settings.COULISSE_OWNS_BROKER = False


def test_failed_child_is_a_problem(record_run, monkeypatch):
    monkeypatch.setattr(health_probe, "is_answering", lambda url, *, seconds: True)
    reason = "ended with exit code 3"
    record_run(
        ChildRecord("worker", "failed", 6, reason), ChildRecord("beat", "running")
    )
    found = list(process_checks.check_server(None))
    assert "is ready at" in texts(found, checks.INFO)
    assert f"worker: failed: {reason}" in texts(found, checks.ERROR)
    assert "beat" not in texts(found)


def test_server_that_is_not_ready_is_a_problem(record_run):
    record_run(url="http://127.0.0.1:9")
    assert "is not ready" in texts(process_checks.check_server(None), checks.ERROR)


def test_broker_that_answers_is_fine(broker):
    [found] = process_checks.check_broker(None)
    assert found.level == checks.INFO
    assert found.msg.startswith("Valkey ")


def test_broken_broker_is_a_problem_without_its_password(no_broker):
    found = texts(process_checks.check_broker(None), checks.ERROR)
    assert "the broker does not answer" in found
    assert "check REDIS_URL" in found
    assert PASSWORD not in found


def test_private_broker_of_a_stopped_server_is_a_warning(project, settings):
    settings.REDIS_URL = "unix:///nowhere/broker.sock"
    settings.COULISSE_OWNS_BROKER = True
    found = texts(process_checks.check_broker(None), checks.WARNING)
    assert "the private broker does not run" in found


def test_workers_are_unknown_without_a_broker(no_broker):
    found = texts(process_checks.check_workers(None), checks.ERROR)
    assert "unknown, because the broker does not answer" in found


def test_worker_that_does_not_answer_is_a_problem(broker, monkeypatch, settings):
    app = SimpleNamespace(control=SimpleNamespace(ping=lambda timeout: None))
    monkeypatch.setattr(process_checks, "import_string", lambda _: app)
    found = texts(process_checks.check_workers(None), checks.ERROR)
    assert "no worker answers" in found
    assert "coulisse worker" in found


@pytest.mark.database
@pytest.mark.parametrize(
    ("age", "level", "text"),
    [
        (timedelta(seconds=4), checks.INFO, "alive"),
        (timedelta(hours=1), checks.ERROR, "has run nothing for 3,6"),
        (None, checks.ERROR, "has never run"),
    ],
)
def test_beat_is_judged_by_its_last_job(database, settings, age, level, text):
    settings.COULISSE_OWNS_BROKER = False
    schedule, _ = IntervalSchedule.objects.get_or_create(every=5, period="seconds")
    name = "recover-for-doctor"
    settings.CELERY_BEAT_SCHEDULE = {name: {}}
    job = PeriodicTask.objects.create(
        name=name,
        task="tasks.tasks.recover",
        interval=schedule,
        last_run_at=None if age is None else datetime.now(UTC) - age,
    )
    [found] = process_checks.check_beat(None)
    job.delete()
    assert found.level == level
    assert text in found.msg


def local(project):
    project.config.write_text(
        "providers: {local: {}}\nagents: [{name: a, provider: local, model: m}]\n"
    )
    return loader.load_file(project.config)


def test_missing_local_model_names_the_packages(project, monkeypatch):
    monkeypatch.setattr(server_plan, "LOCAL_PACKAGES", ("no_such_package",))
    found = texts(process_checks.check_local_model(local(project)), checks.ERROR)
    assert "requirements-local.txt" in found


def test_silent_local_model_is_a_problem(project, record_run):
    record_run(local_model_url="http://127.0.0.1:9/v1")
    found = texts(process_checks.check_local_model(local(project)), checks.ERROR)
    assert "it does not answer" in found


def test_unused_local_model_is_not_checked(config):
    assert list(process_checks.check_local_model(config)) == []


def with_address(project, lines: str):
    project.config.write_text(f"{project.config.read_text()}\n{lines}\n")
    return loader.load_file(project.config)


@pytest.mark.database
def test_public_address_is_called(project, server):
    config = with_address(project, f"public_base_url: {server}")
    found = texts(process_checks.check_public_address(config), checks.INFO)
    assert "leads to a server of Coulisse" in found


@pytest.mark.parametrize(
    ("lines", "text"),
    [
        ("public_base_url: http://127.0.0.1:9", "does not answer"),
        ("", "public_base_url is not set: links for users begin with"),
    ],
)
def test_public_address_that_leads_nowhere(project, lines, text):
    config = with_address(project, lines)
    [found] = process_checks.check_public_address(config)
    assert text in found.msg
    assert found.level == (checks.WARNING if lines else checks.INFO)


def test_public_address_of_another_program_is_a_warning(project, fake):
    fake.raw(b"{}")
    config = with_address(project, f"public_base_url: {fake.root_url}")
    found = texts(process_checks.check_public_address(config), checks.WARNING)
    assert "not as this server does" in found
