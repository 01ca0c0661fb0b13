"""Read and check the environment variables of the deployment."""

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import environ

from coulisse_site import redis_urls
from telemetry.log_output import log_levels
from telemetry.log_output.formatters import process_name

env = environ.Env()

VARIABLES = (
    "COULISSE_BROKER_SOCKET",
    "COULISSE_CONFIG",
    "COULISSE_DATABASE_THREADS",
    "COULISSE_HMAC_KEY",
    "COULISSE_LOG_FORMAT",
    "COULISSE_LOG_LEVEL",
    "COULISSE_MIGRATE",
    "COULISSE_PIN_CORES",
    "COULISSE_PROCESSES",
    "COULISSE_STATE_DIR",
    "COULISSE_STUDIO_EDITS",
    "COULISSE_TOKEN",
    "COULISSE_USER_NAMESPACE",
    "COULISSE_VAULT_KEY",
    "COULISSE_WORKER_THREADS",
)
"""Those that an operator may set."""

SQLITE_PRAGMAS = (
    "PRAGMA journal_mode=WAL;"
    # A commit survives a killed process; only a power failure may lose the last ones.
    "PRAGMA synchronous=NORMAL;"
    "PRAGMA cache_size=-8000;"
)


def sqlite_settings(path: Path) -> dict[str, Any]:
    return {
        "ENGINE": "coulisse_site.sqlite",
        "NAME": path,
        "OPTIONS": {
            "init_command": SQLITE_PRAGMAS,
            "timeout": 5,
            "transaction_mode": "IMMEDIATE",
        },
    }


POSTGRESQL_SCHEMES = ("postgres://", "postgresql://")
SQLITE_SCHEME = "sqlite:///"
POSTGRESQL_TIMEOUTS = {
    # In seconds. An unreachable server is detected within half a minute, not hours.
    "connect_timeout": 5,
    "keepalives_idle": 15,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,  # milliseconds
}


def database_settings(state_dir: Path) -> dict[str, Any]:
    """Return the settings for `DATABASE_URL`, or for SQLite in the state directory."""
    url = env.str("DATABASE_URL", default="")
    if not url:
        return sqlite_settings(state_dir / "coulisse-memory.db")
    if url.startswith(POSTGRESQL_SCHEMES):
        try:
            return _postgresql_settings(url)
        except ValueError:
            pass  # Its message may quote a part of the password.
    raise SystemExit(
        "DATABASE_URL must be postgres://USER:PASSWORD@HOST:PORT/NAME, with special "
        "characters percent-encoded; unset it to use SQLite in .coulisse/"
    )


def parse_database_url(url: str) -> dict[str, Any]:
    """Return the settings of any database; raises ValueError without the URL."""
    try:
        if url.startswith(SQLITE_SCHEME) and url != SQLITE_SCHEME:
            return sqlite_settings(Path(url.removeprefix(SQLITE_SCHEME)).absolute())
        if url.startswith(POSTGRESQL_SCHEMES) and urlsplit(url).path.strip("/"):
            return _postgresql_settings(url)
    except ValueError:
        pass  # Its message may quote a part of the password.
    raise ValueError(
        "the URL must be postgres://USER:PASSWORD@HOST:PORT/NAME, with special "
        "characters percent-encoded, or sqlite:///PATH"
    )


def _postgresql_settings(url: str) -> dict[str, Any]:
    _ = urlsplit(url).port  # Raises ValueError for what is no port.
    config = env.db_url_config(url)
    options = {
        # Shown in `pg_stat_activity`.
        "application_name": f"coulisse {process_name()}",
        **POSTGRESQL_TIMEOUTS,
        **config.get("OPTIONS", {}),
    }
    return {
        **config,
        # The threads of the database keep their connections, and reopen broken ones.
        "CONN_MAX_AGE": None,
        "DISABLE_SERVER_SIDE_CURSORS": _is_pooled(),
        "OPTIONS": options,
    }


def _is_pooled() -> bool:
    """Return whether `DATABASE_POOLER` says that transactions share connections.

    Nothing else needs to know: a session of a pooler keeps no cursor, but nothing here
    depends on other state of sessions, such as prepared statements.
    """
    name: str = env.str("DATABASE_POOLER", default="")
    if name not in ("", "transaction"):
        raise SystemExit(
            f"DATABASE_POOLER must be transaction, not '{name}'; unset it without "
            "pgbouncer, or with its mode session"
        )
    return name == "transaction"


def read_state_dir(config: Path) -> Path:
    """Return `COULISSE_STATE_DIR`; by default a directory beside the YAML.

    A directory that is named has to exist: without the volume that should be there, a
    server would start with new keys.
    """
    text: str = env.str("COULISSE_STATE_DIR", default="")
    if not text:
        return config.parent / ".coulisse"
    path = Path(text).absolute()
    if not path.is_dir():
        raise SystemExit(
            f"COULISSE_STATE_DIR is {path}, which is not a directory: create it or "
            "mount its volume, or unset the variable to use .coulisse/ beside the YAML"
        )
    return path


def read_count(name: str, *, default: int) -> int:
    """Return a positive whole number from the environment."""
    text: str = env.str(name, default=str(default))
    if not text.isdecimal() or int(text) < 1:
        raise SystemExit(f"{name} must be a whole number of at least 1, not '{text}'")
    return int(text)


def read_log_levels() -> tuple[str, dict[str, str]]:
    """Return `COULISSE_LOG_LEVEL`: the level of all modules, and those of some."""
    text: str = env.str("COULISSE_LOG_LEVEL", default="INFO")
    try:
        return log_levels.parse_variable(text)
    except ValueError as exc:
        raise SystemExit(str(exc)) from None


def read_log_format() -> str:
    """Return `COULISSE_LOG_FORMAT`, the name of a formatter in `LOGGING`."""
    name: str = env.str("COULISSE_LOG_FORMAT", default="text")
    if name not in ("text", "json"):
        raise SystemExit(f"COULISSE_LOG_FORMAT must be text or json, not '{name}'")
    return name


def read_migrate() -> bool:
    """Return `COULISSE_MIGRATE`: whether `start` applies migrations."""
    text: str = env.str("COULISSE_MIGRATE", default="on")
    if text not in ("on", "off"):
        raise SystemExit(f"COULISSE_MIGRATE must be on or off, not '{text}'")
    return text == "on"


def read_processes() -> frozenset[str]:
    """Return `COULISSE_PROCESSES`: the kinds of process that `start` runs."""
    known = {"web", "worker", "beat", "sidecars"}
    names = {name.strip() for name in env.list("COULISSE_PROCESSES", default=known)}
    if not {"web"} <= names <= known:
        raise SystemExit(
            "COULISSE_PROCESSES must be a list of web, worker, beat and sidecars that "
            "includes web, such as 'web,worker'; to run one of the others alone, use "
            "`coulisse worker`, `beat` or `sidecars`"
        )
    return frozenset(names)


def read_studio_edits() -> str:
    """Return `COULISSE_STUDIO_EDITS`: `file`, or `database` for all of its replicas.

    Several replicas share a PostgreSQL database, but not their files.
    """
    default = "database" if env.str("DATABASE_URL", default="") else "file"
    edits: str = env.str("COULISSE_STUDIO_EDITS", default=default)
    if edits not in ("file", "database"):
        raise SystemExit(
            f"COULISSE_STUDIO_EDITS must be file or database, not '{edits}'"
        )
    return edits


def read_redis_url() -> str:
    """Return `REDIS_URL`; "" for a private broker that `start` runs."""
    url: str = env.str("REDIS_URL", default="")
    if url and not redis_urls.is_valid_url(url):
        raise SystemExit(
            "REDIS_URL must be redis://HOST:PORT/NUMBER, rediss:// for TLS or "
            "unix:///PATH; unset it to use a private broker in .coulisse/"
        )
    return url
