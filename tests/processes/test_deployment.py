"""The deployment files match the commands."""

import tomllib
from itertools import chain

from django.conf import settings
from django.core.management import get_commands
from ruamel.yaml import YAML

COMPOSE = YAML(typ="safe", pure=True).load(settings.BASE_DIR / "docker-compose.yml")


def test_compose_runs_each_service_separately() -> None:
    services = COMPOSE["services"]
    assert services.keys() == {"web", "worker", "beat", "postgres", "redis"}
    assert services["web"]["environment"]["COULISSE_PROCESSES"] == "web"
    for name in ("worker", "beat"):
        assert services[name]["command"] == f"python manage.py {name}"
        assert name in get_commands()
        # The image's health check is for the web process.
        assert services[name]["healthcheck"] == {"disable": True}
    for name in ("web", "worker", "beat"):
        assert services[name]["environment"]["REDIS_URL"].startswith("redis://redis:")
        assert "@postgres:" in services[name]["environment"]["DATABASE_URL"]
    for name in ("postgres", "redis"):
        assert "test" in services[name]["healthcheck"]


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
    copied = [line.split()[1:-1] for line in lines if line.startswith("COPY ")]
    assert copied
    for name in chain.from_iterable(copied):
        assert (settings.BASE_DIR / name).exists(), name
