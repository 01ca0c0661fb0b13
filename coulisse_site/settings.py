"""Django settings: where Coulisse runs. `coulisse.yaml` defines what it runs.

Deployment values come from environment variables, all of which are optional.
"""

import os
from pathlib import Path
from typing import Any

from django.utils.functional import SimpleLazyObject
from django.utils.module_loading import import_string
from kombu import Exchange, Queue

from coulisse_site import environment, redis_urls, theme
from coulisse_site.environment import env

# Must precede numpy's first import: its threads spin while they wait for each other,
# which costs a web process on one core more time than all of its work.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

BASE_DIR = Path(__file__).resolve().parent.parent

COULISSE_CONFIG = Path(env.str("COULISSE_CONFIG", default="coulisse.yaml")).absolute()
COULISSE_STATE_DIR = environment.read_state_dir(COULISSE_CONFIG)
# The keys that encrypt users' MCP tokens, unless the environment sets them.
COULISSE_SECRETS_FILE = COULISSE_STATE_DIR / "secrets.env"
# The files of users, with `storage: {backend: fs}`, and uploads that are received.
COULISSE_FILES_DIR = COULISSE_STATE_DIR / "files"
COULISSE_SECTIONS = [
    "access.authentication.config.AUTH",
    "access.config.DEFAULT_USER_ID",
    "access.config.USERS",
    "access.limits.config.LIMITS",
    "agents.config.AGENTS",
    "agents.skills.skill_registry.SKILLS",
    "config.config.PUBLIC_BASE_URL",
    "config.config.SERVER",
    "config.config.VARS",
    "config.retention.RETENTION",
    "experiments.config.EXPERIMENTS",
    "files.config.STORAGE",
    "gateway.config.MCP_SERVER",
    "judges.config.JUDGES",
    "mcp_bridge.config.MCP",
    "memory.config.MEMORY",
    "processes.config.SIDECARS",
    "providers.config.PROVIDERS",
    "providers.pricing.config.PRICES",
    "safety.config.SAFETY",
    "smoke.config.SMOKE_TESTS",
    "studio.config.STUDIO",
    "tasks.config.TASKS",
    "triggers.config.TRIGGERS",
    "turns.config.HISTORY",
    "telemetry.config.TELEMETRY",
]
COULISSE_CHECKS: list[str] = [
    "experiments.checks.check_metrics",
    "turns.checks.check_names",
    "experiments.checks.check_variants",
    "judges.checks.check_judges",
    "turns.checks.check_safety",
]
# Called with each configuration that comes into force.
COULISSE_CONFIG_LISTENERS = [
    "telemetry.log_output.log_switch.apply_levels",
    "telemetry.log_output.slow_queries.apply_config",
    "telemetry.request_log.writer.apply_config",
    "telemetry.tracing.exporter.follow",
]
COULISSE_VARIABLES = environment.VARIABLES
# The checks of `coulisse doctor`, by title.
COULISSE_DOCTOR = {
    "configuration": "processes.doctor.host_checks.check_configuration",
    "environment": "processes.doctor.host_checks.check_environment",
    "state directory": "processes.doctor.host_checks.check_state_directory",
    "open files": "processes.doctor.host_checks.check_open_files",
    "request log": "telemetry.doctor.check_request_log",
    "database": "database.doctor.check_database",
    "server": "processes.doctor.process_checks.check_server",
    "broker": "processes.doctor.process_checks.check_broker",
    "workers": "processes.doctor.process_checks.check_workers",
    "beat": "processes.doctor.process_checks.check_beat",
    "queue": "tasks.doctor.check_queue",
    "providers": "providers.doctor.check_providers",
    "local model": "processes.doctor.process_checks.check_local_model",
    "MCP servers": "mcp_bridge.doctor.check_servers",
    "public address": "processes.doctor.process_checks.check_public_address",
}
# Those that cost money.
COULISSE_DOCTOR_ASK = {"models": "providers.doctor.ask_models"}
COULISSE_TASK_KINDS = "coulisse_site.task_kinds.KINDS"
# Records changes by commands in the audit log, for apps below it.
COULISSE_COMMAND_AUDIT = "access.audit.audit_log.run_terminal_change"
# Records changes in the studio in the audit log, for the base of the admin.
COULISSE_AUDIT = "access.audit.audit_log.record_studio_change"
# The names of agents and experiments, to which API tokens can be limited.
COULISSE_AGENT_NAMES = "turns.preparation.routing.list_names"
# The models whose prices are listed and checked.
COULISSE_MODEL_USES = "turns.model_uses.of"
# The tables with user data, in the order of an export.
COULISSE_USER_DATA = [
    "memory.user_data.tables.TABLES",
    "telemetry.user_data.TABLES",
    "mcp_bridge.user_data.TABLES",
    "access.user_data.TABLES",
    "files.user_data.TABLES",
    "tasks.user_data.TABLES",
    "judges.user_data.TABLES",
    "safety.user_data.TABLES",
    "smoke.user_data.TABLES",
]
COULISSE_MAY_CHANGE_COMMANDS = "studio.config.may_change_commands"
# `file` or `database`: where the studio stores edits of the sections of the YAML.
COULISSE_STUDIO_EDITS = environment.read_studio_edits()
# Reads the studio's overrides of the YAML.
COULISSE_OVERLAYS = "config.overrides.override_store.STORE"

DEBUG = False
# The server checks the Host header itself: `server.allowed_hosts`, gateway/asgi.
ALLOWED_HOSTS = ["*"]

INSTALLED_APPS = [
    "database",
    "admin_base",
    "config",
    "providers",
    "mcp_bridge",
    "access",
    "telemetry",
    "tasks",
    "agents",
    "files",
    "memory",
    "safety",
    "experiments",
    "judges",
    "turns",
    "triggers",
    "gateway",
    "smoke",
    "processes",
    "demo",
    "imports",
    "studio",
    # Must precede the admin, whose templates it replaces.
    "unfold.apps.BasicAppConfig",
    "coulisse_site.admin_config.StudioAdminConfig",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.messages",
    "django.contrib.sessions",
    "django.contrib.staticfiles",
    "django_ace",
    "django_celery_beat",
    "drf_spectacular",
    "rest_framework",
]
# Only for the studio: endpoints for clients have none (gateway/asgi/handler.py).
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "csp.middleware.CSPMiddleware",
    "studio.server.middleware.ErrorMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    # Before the login: assets are public, as they are the same in every installation.
    "studio.server.middleware.AssetMiddleware",
    "studio.server.middleware.ConnectionMiddleware",
    "studio.security.sessions.StudioSessionMiddleware",
    "admin_base.csrf.StudioCsrfMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "studio.server.access_middleware.AccessMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
# From the environment or `.coulisse/secrets.env`, read at the first use.
SECRET_KEY = SimpleLazyObject(
    lambda: import_string("mcp_bridge.oauth.crypto.secret_keys.session_key")()
)
SESSION_ENGINE = "studio.security.sessions"
SESSION_COOKIE_NAME = "coulisse_studio"
SESSION_COOKIE_PATH = "/admin/"
SESSION_COOKIE_AGE = 8 * 3600  # Seconds without use.
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
SESSION_SAVE_EVERY_REQUEST = True
CSRF_COOKIE_NAME = "coulisse_csrf"
CSRF_COOKIE_PATH = "/admin/"
CSRF_COOKIE_HTTPONLY = True
CSRF_COOKIE_SAMESITE = "Lax"
X_FRAME_OPTIONS = "DENY"
# No external sources, no frames, and no inline scripts. The shell's script (Alpine)
# compiles expressions from attributes, hence `unsafe-eval`.
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": ["'none'"],
        "script-src": ["'self'", "'unsafe-eval'"],
        "style-src": ["'self'", "'unsafe-inline'"],
        "img-src": ["'self'", "data:"],
        "font-src": ["'self'", "data:"],
        "connect-src": ["'self'"],
        "worker-src": ["'self'", "blob:"],
        "form-action": ["'self'"],
        "frame-ancestors": ["'none'"],
        "base-uri": ["'none'"],
    }
}
AUTHENTICATION_BACKENDS = ["access.authentication.oidc_login.OidcBackend"]
OIDC_MAX_STATES = 5  # They are stored in the cookie.
ROOT_URLCONF = "coulisse_site.urls"
COULISSE_STUDIO_URLCONF = "coulisse_site.studio_urls"
ASGI_APPLICATION = "coulisse_site.asgi.application"
APPEND_SLASH = False
# `server.max_body_bytes` is the limit, enforced while the body arrives.
DATA_UPLOAD_MAX_MEMORY_SIZE = None
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]
MESSAGE_STORAGE = "django.contrib.messages.storage.session.SessionStorage"
STATIC_URL = "/admin/static/"
STATICFILES_DIRS = [BASE_DIR / "static"]
# Served from the source directories, without `collectstatic` or a build.
WHITENOISE_USE_FINDERS = True
WHITENOISE_MAX_AGE = 60  # seconds
WHITENOISE_ALLOW_ALL_ORIGINS = False
REST_FRAMEWORK = {
    "DEFAULT_CONTENT_NEGOTIATION_CLASS": (
        "admin_base.formats.content_negotiation.ContentNegotiation"
    ),
    "DEFAULT_SCHEMA_CLASS": "studio.base.operation_names.StudioAutoSchema",
    "DATETIME_FORMAT": None,  # The renderers format times.
    "EXCEPTION_HANDLER": "studio.base.error_responses.handle_exception",
}
SPECTACULAR_SETTINGS = {
    "TITLE": "Coulisse studio",
    "DESCRIPTION": "The studio's pages as JSON, YAML and CSV, and its actions.",
    "VERSION": "1",
    "OAS_VERSION": "3.1.0",
    "SERVE_INCLUDE_SCHEMA": False,
    "POSTPROCESSING_HOOKS": ["studio.openapi.document.postprocess_document"],
}
UNFOLD = theme.UNFOLD

USE_TZ = True
TIME_ZONE = "UTC"
FORMAT_MODULE_PATH = "coulisse_site.formats"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

DATABASES = {"default": environment.database_settings(COULISSE_STATE_DIR)}
# The settings of another database, to which rows are moved.
COULISSE_DATABASE_URL_PARSER = "coulisse_site.environment.parse_database_url"
# Several machines may share PostgreSQL: each would create keys of its own.
COULISSE_CREATES_KEYS = "sqlite" in DATABASES["default"]["ENGINE"]
COULISSE_DATABASE_THREADS = environment.read_count(
    "COULISSE_DATABASE_THREADS",
    # SQLite has one writer at a time.
    default=1 if "sqlite" in DATABASES["default"]["ENGINE"] else 4,
)
# None: if the machine's cores are this server's.
COULISSE_PIN_CORES = env.bool("COULISSE_PIN_CORES", default=None)
# `start --no-migrate` turns it off, too: then `coulisse migrate` is a job of its own.
COULISSE_MIGRATE = environment.read_migrate()
COULISSE_PROCESSES = environment.read_processes()
# Tasks of memory that a worker runs at a time; `tasks.workers` limits the others.
COULISSE_WORKER_THREADS = environment.read_count("COULISSE_WORKER_THREADS", default=4)
COULISSE_WORKER_CONCURRENCY = 0  # `coulisse worker --concurrency` sets it.
COULISSE_BROKER_SOCKET = Path(
    env.str(
        "COULISSE_BROKER_SOCKET",
        default=str(redis_urls.private_socket_path(COULISSE_STATE_DIR)),
    )
)
COULISSE_OWNS_BROKER = not environment.read_redis_url()
REDIS_URL = environment.read_redis_url() or redis_urls.socket_url(
    COULISSE_BROKER_SOCKET
)
COULISSE_CELERY_APP = "coulisse_site.celery.app"

CELERY_BROKER_URL = redis_urls.celery_url(REDIS_URL)
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_CONNECTION_MAX_RETRIES = None  # A worker waits for ever for its broker.
CELERY_BROKER_CONNECTION_TIMEOUT = 2
CELERY_BROKER_TRANSPORT_OPTIONS = {
    "global_keyprefix": "coulisse:",
    # Rows have priorities; without this, each queue has four lists to wait for.
    "priority_steps": [0],
    "health_check_interval": 10,
    # Limits the time that a caller waits for a hanging Redis.
    "socket_connect_timeout": 2,
    "socket_keepalive": True,
    "socket_timeout": 2,
    # After this time, messages that a killed worker fetched go to another worker.
    "visibility_timeout": 300,
}
CELERY_ACCEPT_CONTENT = ["json"]
CELERY_TASK_SERIALIZER = "json"
CELERY_TASK_IGNORE_RESULT = True
CELERY_RESULT_EXPIRES = None  # There are no results for a nightly job to delete.
CELERY_TASK_DEFAULT_QUEUE = "maintenance"
# A worker without `--queues` consumes all of them.
CELERY_TASK_QUEUES = [
    Queue(name, Exchange(name), routing_key=name, no_ack=name != "maintenance")
    for name in ("agents", "judges", "memory", "shadow", "maintenance")
]
# A message lets a worker run one row of its queue. The row is the source of truth: a
# message that is delivered twice finds no row, and `tasks.tasks.recover` publishes one
# that was lost. So Redis keeps only periodic jobs until they are acknowledged: for
# rows, which have leases, that took a sixth of a worker's time.
CELERY_TASK_ACKS_LATE = True
# A single retry reconnects after a restart of the broker.
CELERY_TASK_PUBLISH_RETRY_POLICY = {
    "max_retries": 1,
    "interval_start": 0,
    "interval_step": 0,
    "interval_max": 0,
}
# Tasks wait for providers most of the time: each thread waits on the process's event
# loop. The pool starts threads as it needs them; `tasks.worker.slots` decides how many
# tasks run at a time, and follows the YAML. Celery's time limits have no effect, as a
# thread cannot be interrupted: tasks limit themselves.
CELERY_WORKER_POOL = "threads"
CELERY_WORKER_CONCURRENCY = 1_100
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
# Threads cannot be cancelled; the rows of a message that is delivered twice are leased.
CELERY_WORKER_CANCEL_LONG_RUNNING_TASKS_ON_CONNECTION_LOSS = False
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_WORKER_REDIRECT_STDOUTS = False
CELERY_TIMEZONE = TIME_ZONE
CELERY_BEAT_SCHEDULER = "triggers.scheduling.beat_scheduler.BeatScheduler"
CELERY_BEAT_MAX_LOOP_INTERVAL = 1  # Maximum delay until edits take effect, in seconds.


# Carries events between processes while a browser shows the studio's live page. The
# page drops a process that sends no event for a minute.
CHANNEL_LAYERS = {
    "default": {
        "BACKEND": "channels_redis.core.RedisChannelLayer",
        "CONFIG": {
            "hosts": [
                {
                    "address": REDIS_URL,
                    "socket_connect_timeout": 2,
                    # Longer than the five seconds that it waits for a message.
                    "socket_timeout": 10,
                    "health_check_interval": 30,
                }
            ],
            "prefix": "coulisse:live",
            "capacity": 200,  # unread messages per process
            "expiry": 15,
            "group_expiry": 60,
        },
    }
}


def beat_entry(seconds: int, task: str) -> dict[str, Any]:
    """Return beat's schedule entry for a job.

    After a pause, beat sends an overdue job once. A message expires when the next one
    is due, so that messages do not accumulate while no worker runs.
    """
    options = {"expire_seconds": seconds}
    return {"task": task, "schedule": seconds, "options": options}


# In addition to the `tasks.py` of every app.
CELERY_IMPORTS = ["coulisse_site.worker", "database.tasks"]

CELERY_BEAT_SCHEDULE = {
    "database-retention": beat_entry(3600, "database.tasks.delete_expired"),
    "experiments-winners": beat_entry(600, "experiments.tasks.report_winners"),
    "files-delete-unused": beat_entry(3600, "files.tasks.delete_unused"),
    "memory-consolidate": beat_entry(600, "memory.tasks.consolidate"),
    "memory-sweep": beat_entry(30, "memory.tasks.sweep"),
    "smoke-sweep": beat_entry(30, "smoke.tasks.close_and_launch"),
    "tasks-recover": beat_entry(5, "tasks.tasks.recover"),
    "telemetry-roll-up": beat_entry(600, "telemetry.tasks.roll_up"),
}

COULISSE_LOG_LEVEL, COULISSE_LOG_LEVELS = environment.read_log_levels()
LOGGING: dict[str, Any] = {
    "version": 1,
    "disable_existing_loggers": False,
    # Every handler must use one of these: they redact secrets.
    "formatters": {
        "json": {"()": "telemetry.log_output.formatters.JsonFormatter"},
        "text": {"()": "telemetry.log_output.formatters.TextFormatter"},
    },
    "filters": {
        "query_string": {"()": "gateway.asgi.access_log.QueryStringFilter"},
        "switch": {
            "()": "telemetry.log_output.logs.LogSwitch",
            "is_enabled": "telemetry.log_output.log_switch.is_enabled",
        },
    },
    "handlers": {
        "stderr": {
            "class": "logging.StreamHandler",
            "formatter": environment.read_log_format(),
            "filters": ["switch"],
        }
    },
    "loggers": {
        # The gateway reports errors to clients, and logs internal errors itself.
        "django.request": {"level": "CRITICAL"},
        "uvicorn.access": {"filters": ["query_string"]},
        "uvicorn.error": {"level": "WARNING"},
        # They log addresses, session ids and contents; mcp_bridge logs the rest.
        "client": {"level": "CRITICAL"},
        "httpx2": {"level": "WARNING"},
        "mcp.client": {"level": "CRITICAL"},
        "django_celery_beat": {"level": "WARNING"},
        # At INFO it logs three lines per message.
        "celery": {"level": "INFO" if COULISSE_LOG_LEVEL == "DEBUG" else "WARNING"},
    },
    "root": {
        "handlers": ["stderr"],
        "level": COULISSE_LOG_LEVEL,
    },
}
for name, level in COULISSE_LOG_LEVELS.items():
    LOGGING["loggers"].setdefault(name, {})["level"] = level
