"""Django settings: where Coulisse runs. `coulisse.yaml` defines what it runs.

Deployment values come from environment variables, all of which are optional.
"""

import os
from pathlib import Path
from typing import Any

from django.utils.functional import SimpleLazyObject
from django.utils.module_loading import import_string

from coulisse_site import environment, redis_urls, theme
from coulisse_site.environment import env

# Must precede numpy's first import: its threads spin while they wait for each other,
# which costs a web process on one core more time than all of its work.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

BASE_DIR = Path(__file__).resolve().parent.parent

COULISSE_CONFIG = Path(env.str("COULISSE_CONFIG", default="coulisse.yaml")).absolute()
COULISSE_STATE_DIR = COULISSE_CONFIG.parent / ".coulisse"
# The keys that encrypt users' MCP tokens, unless the environment sets them.
COULISSE_SECRETS_FILE = COULISSE_STATE_DIR / "secrets.env"
COULISSE_SECTIONS = [
    "access.authentication.config.AUTH",
    "access.config.DEFAULT_USER_ID",
    "access.config.USERS",
    "access.limits.config.LIMITS",
    "agents.config.AGENTS",
    "agents.skills.skill_registry.SKILLS",
    "config.config.SERVER",
    "config.config.VARS",
    "experiments.config.EXPERIMENTS",
    "gateway.config.MCP_SERVER",
    "judges.config.JUDGES",
    "mcp_bridge.config.MCP",
    "mcp_bridge.config.PUBLIC_BASE_URL",
    "memory.config.MEMORY",
    "processes.config.SIDECARS",
    "providers.config.PROVIDERS",
    "providers.pricing.config.PRICES",
    "smoke.config.SMOKE_TESTS",
    "studio.config.STUDIO",
    "tasks.config.TASKS",
    "triggers.config.TRIGGERS",
    "telemetry.config.TELEMETRY",
]
COULISSE_CHECKS: list[str] = [
    "experiments.checks.check_metrics",
    "turns.checks.check_names",
    "experiments.checks.check_variants",
    "judges.checks.check_judges",
]
# The kinds of background task, in display order.
COULISSE_TASK_KINDS = [
    "turns.agent_tasks.agent_handler.KIND",
    "judges.runs.judge_handler.KIND",
    "turns.shadow_runs.shadow_handler.KIND",
    "smoke.execution.run_handler.KIND",
]
# Records changes by commands in the audit log, for apps below it.
COULISSE_COMMAND_AUDIT = "access.audit.audit_log.run_terminal_change"
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
    "tasks.user_data.TABLES",
    "judges.user_data.TABLES",
    "smoke.user_data.TABLES",
]
COULISSE_MAY_CHANGE_COMMANDS = "studio.config.may_change_commands"
# Reads the studio's overrides of the YAML.
COULISSE_OVERLAYS = "config.overrides.override_store.STORE"

DEBUG = False
# The server checks the Host header itself: `server.allowed_hosts`, gateway/asgi.
ALLOWED_HOSTS = ["*"]

INSTALLED_APPS = [
    "config",
    "providers",
    "mcp_bridge",
    "access",
    "telemetry",
    "tasks",
    "agents",
    "memory",
    "experiments",
    "judges",
    "turns",
    "triggers",
    "gateway",
    "smoke",
    "processes",
    "demo",
    "studio",
    # Must precede the admin, whose templates it replaces.
    "unfold.apps.BasicAppConfig",
    "django.contrib.admin.apps.SimpleAdminConfig",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.messages",
    "django.contrib.sessions",
    "django.contrib.staticfiles",
    "django_ace",
    "drf_spectacular",
    "rest_framework",
]
# Only for the studio: endpoints for clients have none (gateway/asgi/handler.py).
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "studio.security.content_security_policy.ContentSecurityPolicyMiddleware",
    "studio.server.error_middleware.ErrorMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    # Before the login: assets are public, as they are the same in every installation.
    "studio.server.asset_middleware.AssetMiddleware",
    "studio.server.connection_middleware.ConnectionMiddleware",
    "studio.security.sessions.StudioSessionMiddleware",
    "studio.security.csrf.StudioCsrfMiddleware",
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
        "studio.base.content_negotiation.ContentNegotiation"
    ),
    "DEFAULT_SCHEMA_CLASS": "studio.openapi.operation_names.StudioAutoSchema",
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
COULISSE_DATABASE_THREADS = environment.read_count(
    "COULISSE_DATABASE_THREADS",
    # SQLite has one writer at a time.
    default=1 if "sqlite" in DATABASES["default"]["ENGINE"] else 4,
)
COULISSE_PIN_CORES = env.bool("COULISSE_PIN_CORES", default=True)
COULISSE_PROCESSES = environment.read_processes()
COULISSE_WORKER_THREADS = environment.read_count("COULISSE_WORKER_THREADS", default=4)
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
CELERY_TASK_DEFAULT_QUEUE = "coulisse"
# A message only wakes a worker. The task's row is the source of truth, and a sweep
# finds every row whose message was lost. So a message is acknowledged when its job
# starts; with late acknowledgement, Redis would redeliver a long job to another worker.
CELERY_TASK_ACKS_LATE = False
# A single retry reconnects after a restart of the broker.
CELERY_TASK_PUBLISH_RETRY_POLICY = {
    "max_retries": 1,
    "interval_start": 0,
    "interval_step": 0,
    "interval_max": 0,
}
# Threads share memory, and jobs wait for providers most of the time. Celery's time
# limits have no effect, as a thread cannot be interrupted: jobs limit their own calls,
# and the lease of a hanging job's row expires.
CELERY_WORKER_POOL = "threads"
CELERY_WORKER_CONCURRENCY = COULISSE_WORKER_THREADS
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
# Applies only to late acknowledgement, which no job uses; unset, Celery warns.
CELERY_WORKER_CANCEL_LONG_RUNNING_TASKS_ON_CONNECTION_LOSS = True
CELERY_WORKER_ENABLE_REMOTE_CONTROL = False
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_WORKER_REDIRECT_STDOUTS = False
CELERY_TIMEZONE = TIME_ZONE
CELERY_BEAT_SCHEDULE_FILENAME = str(COULISSE_STATE_DIR / "beat-schedule")


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
    return {"task": task, "schedule": seconds, "options": {"expires": seconds}}


# In addition to the `tasks.py` of every app.
CELERY_IMPORTS = ["coulisse_site.worker"]

CELERY_BEAT_SCHEDULE = {
    "access-prune": beat_entry(3600, "access.tasks.prune"),
    "experiments-winners": beat_entry(600, "experiments.tasks.report_winners"),
    "mcp-sweep": beat_entry(600, "mcp_bridge.tasks.delete_expired"),
    "memory-consolidate": beat_entry(600, "memory.tasks.consolidate"),
    "memory-sweep": beat_entry(30, "memory.tasks.sweep"),
    "smoke-prune": beat_entry(3600, "smoke.tasks.delete_expired"),
    "smoke-sweep": beat_entry(30, "smoke.tasks.close_and_launch"),
    "tasks-prune": beat_entry(3600, "tasks.tasks.prune"),
    "tasks-sweep": beat_entry(30, "tasks.tasks.sweep"),
    "telemetry-prune": beat_entry(3600, "telemetry.tasks.prune"),
}

LOGGING = {
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
        # At INFO it logs three lines per message.
        "celery": {
            "level": "INFO" if environment.read_log_level() == "DEBUG" else "WARNING"
        },
    },
    "root": {
        "handlers": ["stderr"],
        "level": environment.read_log_level(),
    },
}
