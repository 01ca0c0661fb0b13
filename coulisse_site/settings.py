"""Where Coulisse runs. What it runs is in `coulisse.yaml`.

Every value can be set from the environment; a clone runs with none set.
"""

import logging
from pathlib import Path
from typing import Any

import environ

env = environ.Env()

BASE_DIR = Path(__file__).resolve().parent.parent

COULISSE_CONFIG = Path(env.str("COULISSE_CONFIG", default="coulisse.yaml")).absolute()
COULISSE_STATE_DIR = COULISSE_CONFIG.parent / ".coulisse"
COULISSE_SECTIONS = [
    "access.config.DEFAULT_USER_ID",
    "access.config.USERS",
    "agents.config.AGENTS",
    "config.config.SERVER",
    "config.config.VARS",
    "memory.config.MEMORY",
    "providers.config.PROVIDERS",
]

DEBUG = False
# Nothing is routed or answered by the Host header, and a server on 0.0.0.0 is known
# by many names.
ALLOWED_HOSTS = ["*"]

INSTALLED_APPS = [
    "config",
    "providers",
    "access",
    "agents",
    "memory",
    "turns",
    "gateway",
    "processes",
]
MIDDLEWARE: list[str] = []
ROOT_URLCONF = "coulisse_site.urls"
ASGI_APPLICATION = "coulisse_site.asgi.application"
APPEND_SLASH = False
# The YAML's server.max_body_bytes is the limit, and is kept while the body arrives.
DATA_UPLOAD_MAX_MEMORY_SIZE = None
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
    }
]

USE_TZ = True
TIME_ZONE = "UTC"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

SQLITE_PRAGMAS = (
    "PRAGMA journal_mode=WAL;"
    # A commit survives a killed process; only a power cut may lose the last ones.
    "PRAGMA synchronous=NORMAL;"
    "PRAGMA cache_size=-8000;"
)


def sqlite(path: Path) -> dict[str, Any]:
    """Return the settings of a SQLite file."""
    return {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": path,
        "OPTIONS": {
            "init_command": SQLITE_PRAGMAS,
            "timeout": 5,
            "transaction_mode": "IMMEDIATE",
        },
    }


def database() -> dict[str, Any]:
    """Return SQLite beside the YAML, or the PostgreSQL that `DATABASE_URL` names."""
    url = env.str("DATABASE_URL", default="")
    if not url:
        return sqlite(COULISSE_STATE_DIR / "coulisse-memory.db")
    if not url.startswith(("postgres://", "postgresql://")):
        raise SystemExit(
            "DATABASE_URL must be postgres://USER:PASSWORD@HOST:PORT/NAME; leave it "
            "out for SQLite in .coulisse/"
        )
    # The database lane's threads keep their own connections and mend them.
    return {**env.db_url_config(url), "CONN_MAX_AGE": None}


def log_level() -> str:
    """Return `COULISSE_LOG_LEVEL`, one of logging's own."""
    level: str = env.str("COULISSE_LOG_LEVEL", default="INFO").upper()
    if level not in logging.getLevelNamesMapping():
        raise SystemExit(
            f"COULISSE_LOG_LEVEL is '{level}'; it must be DEBUG, INFO, WARNING or ERROR"
        )
    return level


DATABASES = {"default": database()}
COULISSE_DATABASE_THREADS = env.int(
    "COULISSE_DATABASE_THREADS",
    # SQLite has one writer at a time.
    default=1 if "sqlite3" in DATABASES["default"]["ENGINE"] else 4,
)
COULISSE_PIN_CORES = env.bool("COULISSE_PIN_CORES", default=True)

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "line": {"format": "{asctime} {levelname} {name} {message}", "style": "{"}
    },
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
    "loggers": {
        # The gateway tells a client of its mistakes, and logs ours itself.
        "django.request": {"level": "CRITICAL"},
        "uvicorn.error": {"level": "WARNING"},
    },
    "root": {
        "handlers": ["stderr"],
        "level": log_level(),
    },
}
