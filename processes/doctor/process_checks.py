"""The checks of the server's processes, and of the broker between them."""

from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from typing import Any

import httpx2
from celery import Celery
from django.conf import settings
from django.core import checks
from django.db.models import Max
from django.utils.module_loading import import_string
from django_celery_beat.models import PeriodicTask
from redis import Redis, RedisError

from config.config import PUBLIC_BASE_URL, SERVER
from config.sections import Config
from core.runtime import shared_clock
from processes.errors import PackagesMissing
from processes.management.commands.status import describe_child
from processes.server import health_probe, server_plan
from processes.server.running_server import find_running
from processes.supervision import state_directory
from processes.supervision.run_state import RunRecord

SECONDS = 3.0
"""The time limit of each request."""
START = "start the server with `coulisse start`"
BEAT_LATE = timedelta(minutes=1)
"""Beat sends `tasks-recover` every five seconds."""


def check_server(_: Config | None) -> Iterator[checks.CheckMessage]:
    """Check the processes of the server of this directory, and its readiness."""
    run = _running_server()
    if run is None:
        yield checks.Warning("no server runs in this directory", hint=START)
        return
    if health_probe.is_answering(f"{run.url}/health/ready", seconds=SECONDS):
        yield checks.Info(f"pid {run.pid} is ready at {run.url}")
    else:
        yield checks.Error(
            f"pid {run.pid} is not ready at {run.url}",
            hint=f"see GET {run.url}/health/ready, and the log",
        )
    for child in run.children:
        if child.state in ("waiting", "failed"):
            yield checks.Error(
                f"{child.name}: {describe_child(child)}",
                hint="see the log for the reason",
            )


def check_broker(_: Config | None) -> Iterator[checks.CheckMessage]:
    """Check that the broker answers, and keeps its messages."""
    try:
        with closing(_broker()) as broker:
            info: dict[str, Any] = broker.info()
    except (RedisError, OSError) as exc:
        yield _silent_broker(exc)
        return
    name = "Valkey" if "valkey_version" in info else "Redis"
    version = info.get("valkey_version", info.get("redis_version"))
    yield checks.Info(f"{name} {version}, {info.get('used_memory_human')} in use")
    policy = info.get("maxmemory_policy", "noeviction")
    if info.get("maxmemory") and policy != "noeviction":
        yield checks.Warning(
            f"the broker deletes keys when its memory is full ({policy})",
            hint="set its maxmemory-policy to noeviction",
        )


def check_workers(_: Config | None) -> Iterator[checks.CheckMessage]:
    """Ask all workers to answer."""
    try:
        with closing(_broker()) as broker:
            broker.ping()
    except (RedisError, OSError):
        yield _expected("unknown, because the broker does not answer", "start it")
        return
    app: Celery = import_string(settings.COULISSE_CELERY_APP)
    answers = app.control.ping(timeout=SECONDS) or []
    names = sorted(name for answer in answers for name in answer)
    if names:
        yield checks.Info(f"{len(names)} alive: {', '.join(names[:10])}")
    else:
        yield _expected("no worker answers", f"{START}, or `coulisse worker`")


def check_beat(_: Config | None) -> Iterator[checks.CheckMessage]:
    """Check when beat last ran a job."""
    jobs = PeriodicTask.objects.filter(name__in=settings.CELERY_BEAT_SCHEDULE)
    last_run_at = jobs.aggregate(last=Max("last_run_at"))["last"]
    if last_run_at is None:
        yield _expected("beat has never run", f"{START}, or `coulisse beat`")
        return
    age = shared_clock.now() - last_run_at
    seconds = max(0, int(age.total_seconds()))
    if age <= BEAT_LATE:
        yield checks.Info(f"alive {seconds} s ago")
    else:
        yield _expected(
            f"beat has run nothing for {seconds:,} s: no cron, recovery or clean-up",
            f"{START}, or `coulisse beat`",
        )


def check_local_model(config: Config | None) -> Iterator[checks.CheckMessage]:
    """Check the model on this machine, if a provider needs it."""
    if config is None or not (names := server_plan.local_model_providers(config)):
        return
    run = _running_server()
    if run is None:
        try:
            server_plan.require_local_packages(names[0])
        except PackagesMissing as exc:
            yield checks.Error(str(exc), hint="run `make local-model`")
        else:
            yield checks.Info(f"its packages are installed, for {', '.join(names)}")
    elif run.local_model_url is None:
        yield checks.Error(
            f"the server runs no local model, which {names[0]} needs",
            hint="run `coulisse restart`",
        )
    elif health_probe.is_answering(_local_health(run.local_model_url), seconds=SECONDS):
        yield checks.Info(f"it answers, for {', '.join(names)}")
    else:
        yield checks.Error(
            "it does not answer", hint="see the check of the server and the log"
        )


def check_public_address(config: Config | None) -> Iterator[checks.CheckMessage]:
    """Call this server by its public address."""
    if config is None:
        return
    url = config.get(PUBLIC_BASE_URL)
    if url is None:
        hosts = [each for each in config.get(SERVER).allowed_hosts if each != "*"]
        default = (
            f"links for users begin with http://localhost:{config.get(SERVER).port}"
        )
        if hosts:
            yield checks.Warning(
                f"public_base_url is not set: {default}",
                hint=f"set it, such as https://{hosts[0].lstrip('.')}",
            )
        else:
            yield checks.Info(f"public_base_url is not set: {default}")
        return
    try:
        response = httpx2.get(f"{url}/health/live", timeout=SECONDS)
        is_ours = response.status_code == 200 and response.json() == {"status": "ok"}
        problem = f"it answers {response.status_code}, not as this server does"
    except (httpx2.HTTPError, ValueError) as exc:
        is_ours, problem = False, f"it does not answer: {exc}"
    if is_ours:
        yield checks.Info(f"{url} leads to a server of Coulisse")
    else:
        yield checks.Warning(
            f"{url}: {problem}",
            hint="check public_base_url, its DNS name, certificate and reverse proxy; "
            "this machine may be unable to reach its own public address",
        )


def _running_server() -> RunRecord | None:
    running = find_running(state_directory.current_state())
    return None if running is None else running[1]


def _local_health(url: str) -> str:
    return f"{url.removesuffix('/v1')}/health"


def _broker() -> "Redis":
    return Redis.from_url(
        settings.REDIS_URL, socket_connect_timeout=SECONDS, socket_timeout=SECONDS
    )


def _silent_broker(error: Exception) -> checks.CheckMessage:
    if settings.COULISSE_OWNS_BROKER:
        return _expected("the private broker does not run", START)
    return checks.Error(
        f"the broker does not answer: {error}",
        hint="check REDIS_URL, and that the broker runs",
    )


def _expected(text: str, remedy: str) -> checks.CheckMessage:
    """Return a warning if no server runs here, and else an error.

    With a broker of its own the server runs all processes; with `REDIS_URL` they may
    run elsewhere.
    """
    is_stopped = settings.COULISSE_OWNS_BROKER and _running_server() is None
    return (checks.Warning if is_stopped else checks.Error)(text, hint=remedy)
