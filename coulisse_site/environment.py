"""Environment variables of the deployment, checked as they are read."""

import logging
from pathlib import Path
from typing import Any

import environ

from coulisse_site import redis_urls

env = environ.Env()

SQLITE_PRAGMAS = (
    "PRAGMA journal_mode=WAL;"
    # A commit survives a killed process; only a power cut may lose the last ones.
    "PRAGMA synchronous=NORMAL;"
    "PRAGMA cache_size=-8000;"
)


def sqlite_settings(path: Path) -> dict[str, Any]:
    """Return the settings of a SQLite file."""
    return {
        "ENGINE": "coulisse_site.sqlite",
        "NAME": path,
        "OPTIONS": {
            "init_command": SQLITE_PRAGMAS,
            "timeout": 5,
            "transaction_mode": "IMMEDIATE",
        },
    }


POSTGRESQL_TIMEOUTS = {
    # In seconds; a server that vanished is noticed within half a minute, not hours.
    "connect_timeout": 5,
    "keepalives_idle": 15,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,  # milliseconds
}


def database_settings(state_dir: Path) -> dict[str, Any]:
    """Return SQLite beside the YAML, or the PostgreSQL that `DATABASE_URL` names."""
    url = env.str("DATABASE_URL", default="")
    if not url:
        return sqlite_settings(state_dir / "coulisse-memory.db")
    if not url.startswith(("postgres://", "postgresql://")):
        raise SystemExit(
            "DATABASE_URL must be postgres://USER:PASSWORD@HOST:PORT/NAME; leave it "
            "out for SQLite in .coulisse/"
        )
    # The database lane's threads keep their own connections and mend them.
    chosen = env.db_url_config(url)
    options = {**POSTGRESQL_TIMEOUTS, **chosen.get("OPTIONS", {})}
    return {**chosen, "CONN_MAX_AGE": None, "OPTIONS": options}


def read_count(name: str, *, default: int) -> int:
    """Return how many of something the environment asks for."""
    text: str = env.str(name, default=str(default))
    if not text.isdecimal() or int(text) < 1:
        raise SystemExit(f"{name} is '{text}'; it must be a whole number from 1")
    return int(text)


def read_log_level() -> str:
    """Return `COULISSE_LOG_LEVEL`, one of logging's own."""
    level: str = env.str("COULISSE_LOG_LEVEL", default="INFO").upper()
    if level not in logging.getLevelNamesMapping():
        raise SystemExit(
            f"COULISSE_LOG_LEVEL is '{level}'; it must be DEBUG, INFO, WARNING or ERROR"
        )
    return level


def read_log_format() -> str:
    """Return `COULISSE_LOG_FORMAT`, one of the formatters of `LOGGING`."""
    chosen: str = env.str("COULISSE_LOG_FORMAT", default="text")
    if chosen not in ("text", "json"):
        raise SystemExit(f"COULISSE_LOG_FORMAT is '{chosen}'; it must be text or json")
    return chosen


def read_processes() -> frozenset[str]:
    """Return `COULISSE_PROCESSES`, what `start` runs."""
    known = {"web", "worker", "beat", "sidecars"}
    chosen = {name.strip() for name in env.list("COULISSE_PROCESSES", default=known)}
    if not {"web"} <= chosen <= known:
        raise SystemExit(
            "COULISSE_PROCESSES is a list of web, worker, beat and sidecars with web "
            "in it, such as 'web,worker'; `manage.py worker`, `beat` and `sidecars` "
            "run one alone"
        )
    return frozenset(chosen)


def read_redis_url() -> str:
    """Return `REDIS_URL`; empty when the broker is to be a private one."""
    url: str = env.str("REDIS_URL", default="")
    if url and not redis_urls.is_valid_url(url):
        raise SystemExit(
            "REDIS_URL must be redis://HOST:PORT/NUMBER, rediss:// for TLS or "
            "unix:///PATH; leave it out for a broker in .coulisse/"
        )
    return url
