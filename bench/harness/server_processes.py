"""The processes of a measurement: server, provider, load generator, baseline."""

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, Any, Self

from bench.harness import process_metrics
from bench.load import LoadRequest, LoadResult
from core.messages import Message
from core.token_estimates import MESSAGE_OVERHEAD, estimate_message

ROOT = Path(__file__).resolve().parents[2]
CONTEXT_MESSAGES = 20
START_SECONDS = 30
# With the tokens that the provider reports (30), all messages have the same size.
QUESTION = "And then? Tell me what happened next, in the town by the sea, in about "
QUESTION += "thirty words, as you would tell it to a child of six."[
    : 120 - len(QUESTION)
]
PREAMBLE = "You are a helpful assistant. Be brief and concrete."
CONFIG = """
tasks: {{tools: false}}
telemetry:
  fmt: {{enabled: {recorded}}}
  sqlite: {{enabled: {recorded}}}
providers:
  openai:
    api_key: sk-bench
    base_url: {provider}
    retries: 0
memory:
  user_state:
    embed_with: {{provider: local}}
mcp:
  waiter: {{url: "{tool_server}", oauth: false}}
agents:
"""
AGENT = """
  - name: {name}
    provider: openai
    model: {name}
    context_tokens: {context_tokens}
    preamble: {preamble}
    memory: {memory}
    mcp_tools: {mcp_tools}
"""
TOOL_AGENT = "tool"
"""The agent whose model calls a tool of an MCP server in every turn."""
MEMORY_AGENT = "remember"
"""The agent with user memory; the others have none."""
MEMORY_TOKENS = 1000
RECORDED = "recorded.yaml"
"""A second YAML: the same, but with turn records and log lines."""
LIMITED = "limited.yaml"
"""A third YAML: the same, but with API tokens, prices and all kinds of limits."""
LIMITS_YAML = """
auth: {proxy: {tokens: {}}}
prices:
  openai: {reply: {input: 0.15, output: 0.60}}
limits:
  - {per: token, requests_per_minute: 1000000, tokens_per_day: 1000000000}
  - {per: principal, tokens_per_hour: 1000000000, usd_per_day: 1000000}
  - {per: agent, requests_per_minute: 1000000, concurrent: 1000}
"""


def context_tokens() -> int:
    """Return the context size that holds exactly `CONTEXT_MESSAGES`."""
    message = estimate_message(Message("user", QUESTION))
    preamble = estimate_message(Message("system", PREAMBLE))
    return preamble + message * (1 + CONTEXT_MESSAGES) + MESSAGE_OVERHEAD


def body(agent: str, user: str) -> str:
    """Return the body of a user's request to an agent."""
    message = {"role": "user", "content": QUESTION}
    fields = {"model": agent, "messages": [message], "safety_identifier": user}
    if agent.startswith("stream"):
        fields["stream"] = True
    return json.dumps(fields, separators=(",", ":"))


@dataclass(frozen=True, eq=False)
class MeasuredProcess:
    """A server under measurement."""

    port: int
    popen: subprocess.Popen[bytes]

    @property
    def pid(self) -> int:
        return self.popen.pid


@dataclass
class LoadSample:
    """The result of one load, and its CPU cost for the server."""

    outcome: LoadResult
    cpu_seconds: float = 0.0


class ServerProcesses:
    """Starts the processes of a measurement, and ends them."""

    def __init__(self, agents: list[str]) -> None:
        self._agents = agents
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        self._stack.close()

    def _start(self) -> None:
        self._directory = Path(tempfile.mkdtemp(prefix="coulisse-bench-"))
        self._stack.callback(shutil.rmtree, self._directory, ignore_errors=True)
        provider = self._module("provider", stdout=subprocess.PIPE)
        self._tool_server = self._module("tool_server", stdout=subprocess.PIPE)
        self.provider_port = int(provider.stdout.readline())
        self._result_file = self._directory / "result.json"
        self._load = self._module(
            "load", str(self._result_file), stdout=subprocess.PIPE
        )

    def project(
        self, name: str, users: list[tuple[str, int]], known: list[str]
    ) -> dict[str, str]:
        """Create a project with a filled database; return its environment.

        `known` are the users with facts.
        """
        directory = self._directory / name
        (directory / ".coulisse").mkdir(parents=True)
        agents = [
            AGENT.format(
                name=agent,
                context_tokens=context_tokens()
                + (MEMORY_TOKENS if agent == MEMORY_AGENT else 0),
                preamble=repr(PREAMBLE),
                memory="true" if agent == MEMORY_AGENT else "false",
                mcp_tools="[{server: waiter}]" if agent == TOOL_AGENT else "[]",
            )
            for agent in self._agents
        ]
        config = directory / "coulisse.yaml"
        for path, recorded, extra in (
            (config, "false", ""),
            (directory / RECORDED, "true", ""),
            (directory / LIMITED, "false", LIMITS_YAML),
        ):
            path.write_text(self._config(recorded) + "".join(agents) + extra)
        environment = self._environment(directory)
        subprocess.run(
            [sys.executable, "-P", "-m", "bench.seed"],
            input=json.dumps([QUESTION, users, known]).encode(),
            env=environment,
            check=True,
        )
        return environment

    @staticmethod
    def _environment(project: Path) -> dict[str, str]:
        inherited = {
            key: value
            for key, value in os.environ.items()
            if not key.startswith(("COULISSE_", "DJANGO_"))
            and key not in {"DATABASE_URL", "REDIS_URL", "DEBUG"}
        }
        return {
            **inherited,
            "COULISSE_CONFIG": str(project / "coulisse.yaml"),
            "DJANGO_SETTINGS_MODULE": "coulisse_site.settings",
            "PYTHONPATH": str(ROOT),
        }

    @cached_property
    def tool_server_port(self) -> int:
        # Read late, because it takes a second to start.
        return int(self._tool_server.stdout.readline())

    def _config(self, recorded: str) -> str:
        return CONFIG.format(
            recorded=recorded,
            provider=self.provider_url,
            tool_server=f"http://127.0.0.1:{self.tool_server_port}/mcp",
        )

    @property
    def provider_url(self) -> str:
        return f"http://127.0.0.1:{self.provider_port}/v1"

    @contextmanager
    def web(
        self, name: str, users: list[tuple[str, int]], known: list[str] | None = None
    ) -> Iterator[MeasuredProcess]:
        """Run a web process like the supervisor does, for a project of its own."""
        environment = self.project(name, users, known or [])
        with self.serving("processes.web", environment) as process:
            yield process

    @contextmanager
    def web_with(self, name: str, config: str) -> Iterator[MeasuredProcess]:
        """Run another web process of the same project, with `RECORDED` or `LIMITED`."""
        path = self._directory / name
        environment = self._environment_with(name, config)
        with (
            open(path / "log", "wb") as log,
            self.serving("processes.web", environment, stderr=log) as process,
        ):
            yield process

    def create_token(self, name: str, user: str) -> str:
        """Return the secret of a new API token of a user, with a budget."""
        command = ["manage.py", "token", "create", "bench", "--principal", user]
        created = subprocess.run(
            [sys.executable, *command, "--budget", "monthly", "--limit", "1000000"],
            env=self._environment_with(name, LIMITED),
            cwd=ROOT,
            check=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        return created.stdout.decode().strip()

    def _environment_with(self, name: str, config: str) -> dict[str, str]:
        path = self._directory / name
        return {**self._environment(path), "COULISSE_CONFIG": str(path / config)}

    @contextmanager
    def baseline(self, *arguments: str) -> Iterator[MeasuredProcess]:
        """Run the baseline server."""
        environment = {
            **os.environ,
            "BENCH_PROVIDER": self.provider_url,
            "PYTHONPATH": str(ROOT),
        }
        with self.serving("bench.baseline", environment, *arguments) as process:
            yield process

    @contextmanager
    def serving(
        self,
        module: str,
        environment: dict[str, str],
        *arguments: str,
        stderr: IO[bytes] | None = None,
        prefix: Sequence[str] = (),
        cwd: Path | None = None,
    ) -> Iterator[MeasuredProcess]:
        """Run a module as a server; `prefix` is a program that runs it."""
        # The server ends when the write end of this pipe is closed.
        parent_pipe, write_end = os.pipe()
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            listener.listen(1024)
            fd = listener.fileno()
            port = listener.getsockname()[1]
            fds = ["--fd", str(fd), "--parent-pipe", str(parent_pipe)]
            popen = subprocess.Popen(
                [*prefix, sys.executable, "-P", "-m", module, *fds, *arguments],
                env=environment,
                cwd=cwd,
                pass_fds=(fd, parent_pipe),
                stdin=subprocess.DEVNULL,
                stderr=stderr,
                process_group=0,
            )
        os.close(parent_pipe)
        if module == "processes.web" and hasattr(os, "sched_setaffinity"):
            # The supervisor of a server does the same.
            os.sched_setaffinity(popen.pid, {min(os.sched_getaffinity(0))})
        try:
            yield MeasuredProcess(port, popen)
        finally:
            popen.terminate()
            try:
                popen.wait(15)
            except subprocess.TimeoutExpired:
                popen.kill()
                popen.wait()
            os.close(write_end)

    def _module(
        self, name: str, *arguments: str, **fields: Any
    ) -> subprocess.Popen[bytes]:
        popen = subprocess.Popen(
            [sys.executable, "-m", f"bench.{name}", *arguments],
            stdin=subprocess.PIPE,
            cwd=ROOT,
            **fields,
        )
        self._stack.callback(_end, popen)
        return popen

    # Measure.

    def sample(self, process: MeasuredProcess | None, load: LoadRequest) -> LoadSample:
        """Send a load, and measure its CPU cost for a server, unless that is None."""
        pipe = self._load
        pipe.stdin.write(json.dumps(asdict(load)).encode() + b"\n")
        pipe.stdin.flush()
        if pipe.stdout.readline().strip() != b"ready":
            raise RuntimeError("the load generator did not start: see its output above")
        before = 0.0 if process is None else process_metrics.cpu_seconds(process.pid)
        pipe.stdin.write(b"go\n")
        pipe.stdin.flush()
        reply = pipe.stdout.readline()
        after = 0.0 if process is None else process_metrics.cpu_seconds(process.pid)
        if reply.strip() != b"done":
            raise RuntimeError("the load generator failed: see its output above")
        result = json.loads(self._result_file.read_text())
        return LoadSample(LoadResult(**result), after - before)

    def last_body(self) -> str:
        """Return the body of the last call that the provider received."""
        url = f"http://127.0.0.1:{self.provider_port}/last"
        with urllib.request.urlopen(url, timeout=5) as response:
            return response.read().decode()

    def wait_for(
        self,
        process: MeasuredProcess,
        request: str,
        head: str = "",
        *,
        seconds: float = START_SECONDS,
    ) -> None:
        """Wait until a server answers this request without an error."""
        deadline = time.monotonic() + seconds
        while True:
            outcome = self.sample(
                None, LoadRequest(process.port, [request], head=head)
            ).outcome
            if not outcome.errors:
                return
            if process.popen.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the server does not answer: {outcome.first_error}")
            time.sleep(0.1)


def _end(popen: subprocess.Popen[bytes]) -> None:
    for pipe in (popen.stdin, popen.stdout):
        if pipe is not None:
            pipe.close()
    try:
        popen.wait(5)
    except subprocess.TimeoutExpired:
        popen.kill()
        popen.wait()
