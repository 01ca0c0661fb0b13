"""The deployment files match the commands."""

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
