"""`runserver` serves the application for developers, with its startup."""

import subprocess
import sys
import urllib.error

import pytest

from tests.processes.conftest import MANAGE, Project, until


@pytest.fixture
def runserver(project: Project) -> Project:
    """A project whose tables exist, served by `runserver`."""
    project.environment["DJANGO_SETTINGS_MODULE"] = "coulisse_site.settings"
    assert project.run("migrate").returncode == 0
    process = subprocess.Popen(
        [
            sys.executable,
            MANAGE,
            "runserver",
            "--noreload",
            f"127.0.0.1:{project.port}",
        ],
        cwd=project.root,
        env=project.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    project.attached.append(process)

    def answers() -> bool:
        assert process.poll() is None, process.communicate()[0]
        try:
            return bool(project.get("/health/ready"))
        except urllib.error.URLError:
            return False

    until(answers)
    return project


def test_runserver_serves_api_and_studio(runserver: Project) -> None:
    assert '"pm"' in runserver.get("/v1/models")
    assert '"activity"' in runserver.get("/admin/")
    assert "--body" in runserver.get("/admin/static/admin/css/base.css")


def test_runserver_reloads_an_edited_configuration(runserver: Project) -> None:
    """The application's startup begins to watch the file."""
    assert '"sales"' not in runserver.get("/v1/models")
    text = runserver.config.read_text()
    runserver.config.write_text(text.replace("name: pm,", "name: sales,"))
    until(lambda: '"sales"' in runserver.get("/v1/models"))
