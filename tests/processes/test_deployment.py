"""The deployment files and workflows match the commands and the Makefile."""

import re
import tomllib
from collections.abc import Iterator
from itertools import chain
from typing import Any

import pytest
from django.conf import settings
from django.core.management import get_commands
from ruamel.yaml import YAML

from config.config import ServerConfig
from config.loading import secrets_file
from tasks.config import TasksConfig

LOADER = YAML(typ="safe", pure=True)
COMPOSE = LOADER.load(settings.BASE_DIR / "docker-compose.yml")
WORKFLOWS = {
    path.stem: LOADER.load(path)
    for path in (settings.BASE_DIR / ".github/workflows").glob("*.yml")
}


def test_compose_runs_each_service_separately() -> None:
    services = COMPOSE["services"]
    own = {"web", "worker", "beat", "migrate"}
    assert services.keys() == own | {"proxy", "local-model", "postgres", "redis"}
    assert services["web"]["environment"]["COULISSE_PROCESSES"] == "web"
    for name in own - {"web"}:
        assert services[name]["command"] == f"coulisse {name}"
        assert name in get_commands()
        # The image's health check is for the web process.
        assert services[name]["healthcheck"] == {"disable": True}
    for name in own:
        environment = services[name]["environment"]
        assert environment["REDIS_URL"].startswith("redis://redis:")
        assert "@postgres:" in environment["DATABASE_URL"]
        assert environment["COULISSE_MIGRATE"] == "off"
        assert services[name]["read_only"]
        assert services[name]["user"] == "1000"
        for key in secrets_file.NAMES:
            assert environment[key].startswith(f"${{{key}:?")
    # Only the proxy has a port, so that there can be several of each other service.
    assert [name for name in services if "ports" in services[name]] == ["proxy"]
    for name in ("postgres", "redis"):
        assert "test" in services[name]["healthcheck"]


def test_containers_have_time_for_the_drains() -> None:
    drains = (ServerConfig().drain_seconds, TasksConfig().drain_seconds)
    for name in ("web", "worker"):
        seconds = int(COMPOSE["services"][name]["stop_grace_period"].removesuffix("s"))
        assert seconds >= max(drains) + 12


def test_wheel_has_every_app_and_their_files() -> None:
    with (settings.BASE_DIR / "pyproject.toml").open("rb") as file:
        tool = tomllib.load(file)["tool"]
    included = tool["hatch"]["build"]["targets"]["wheel"]["only-include"]
    # The scripted provider is for tests.
    apps = {*tool["importlinter"]["root_packages"]} - {"testing"}
    others = {"manage.py", "requirements-local.txt", "static", "templates"}
    assert included == sorted(apps | others)


def test_image_copies_files_that_exist() -> None:
    lines = (settings.BASE_DIR / "Dockerfile").read_text().splitlines()
    copied = [line.split()[1:-1] for line in lines if re.match("COPY (?!--from)", line)]
    assert copied
    for name in chain.from_iterable(copied):
        assert (settings.BASE_DIR / name).exists(), name


def workflow_steps(workflow: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the steps of all jobs, and the jobs that call another workflow."""
    for job in workflow["jobs"].values():
        targets = job.get("strategy", {}).get("matrix", {}).get("target", [""])
        for step in job.get("steps", [job]):
            for target in targets if "matrix.target }}" in str(step) else [""]:
                command = step.get("run", "").replace("${{ matrix.target }}", target)
                yield {**step, "run": command}


@pytest.mark.parametrize("name", WORKFLOWS)
def test_workflows_call_targets_of_the_makefile(name: str) -> None:
    makefile = (settings.BASE_DIR / "Makefile").read_text()
    targets = {*re.findall(r"(?m)^([a-z-]+):", makefile)}
    commands = [step["run"] for step in workflow_steps(WORKFLOWS[name])]
    called = {*re.findall(r"make ([a-z-]+)", " ".join(commands))}
    assert called
    assert called <= targets


def test_ci_runs_what_the_script_runs() -> None:
    script = (settings.BASE_DIR / ".ci/run").read_text()
    (targets,) = re.findall(r"(?m)^make (.+)", script)
    commands = {step["run"] for step in workflow_steps(WORKFLOWS["ci"])}
    assert commands >= {f"make {target}" for target in targets.split()}


@pytest.mark.parametrize("name", WORKFLOWS)
def test_actions_are_pinned_by_their_major_version(name: str) -> None:
    used = [step["uses"] for step in workflow_steps(WORKFLOWS[name]) if "uses" in step]
    assert used
    for action in used:
        if action.startswith("./"):
            assert (settings.BASE_DIR / action).exists(), action
        else:
            assert re.fullmatch(r"[\w-]+/[\w-]+@v\d+", action), action


def test_release_publishes_after_the_checks_with_the_platforms_token() -> None:
    release = WORKFLOWS["release"]
    assert release["on"] == {"push": {"tags": ["v*"]}}
    assert "secrets" not in str(WORKFLOWS)
    jobs = release["jobs"]
    assert (jobs["wheel"]["needs"], jobs["image"]["needs"]) == ("check", "wheel")
    assert jobs["image"]["permissions"]["packages"] == "write"
    *_, build = jobs["image"]["steps"]
    assert build["with"]["platforms"] == "linux/amd64,linux/arm64"
    assert build["with"]["push"] is True
