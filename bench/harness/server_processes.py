"""The processes of a measurement: the server, the provider, the load, the floor."""

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
# With what the provider says a reply costs (30 tokens), all messages are one size.
QUESTION = "And then? Tell me what happened next, in the town by the sea, in about "
QUESTION += "thirty words, as you would tell it to a child of six."[
    : 120 - len(QUESTION)
]
PREAMBLE = "You are a helpful assistant. Be brief and concrete."
CONFIG = """
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
USING_TOOLS = "tool"
"""The agent whose model calls a tool of an MCP server in every turn."""
REMEMBERING = "remember"
"""The agent that recalls and learns; the others do not."""
BLOCK_TOKENS = 1000
RECORDED = "recorded.yaml"
"""Beside coulisse.yaml: the same, with its turns recorded and logged."""
GUARDED = "guarded.yaml"
"""The same as coulisse.yaml behind API tokens, with limits on all that can have one."""
GUARD = """
auth: {proxy: {tokens: {}}}
prices:
  openai: {reply: {input: 0.15, output: 0.60}}
limits:
  - {per: token, requests_per_minute: 1000000, tokens_per_day: 1000000000}
  - {per: principal, tokens_per_hour: 1000000000, usd_per_day: 1000000}
  - {per: agent, requests_per_minute: 1000000, concurrent: 1000}
"""


def context_tokens() -> int:
    """Return the budget that holds exactly the messages wanted."""
    one = estimate_message(Message("user", QUESTION))
    preamble = estimate_message(Message("system", PREAMBLE))
    return preamble + one * (1 + CONTEXT_MESSAGES) + MESSAGE_OVERHEAD


def body(agent: str, user: str) -> str:
    """Return a request of a user to an agent."""
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
    """One block of load and what it cost the server."""

    outcome: LoadResult
    cpu_seconds: float = 0.0


class ServerProcesses:
    """Starts everything, and leaves nothing behind."""

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
        self._outcome = self._directory / "outcome.json"
        self._load = self._module("load", str(self._outcome), stdout=subprocess.PIPE)

    def project(
        self, name: str, users: list[tuple[str, int]], known: list[str]
    ) -> dict[str, str]:
        """Make a project with a filled database; return its environment.

        Facts are known about the users in `known`.
        """
        directory = self._directory / name
        (directory / ".coulisse").mkdir(parents=True)
        agents = [
            AGENT.format(
                name=agent,
                context_tokens=context_tokens()
                + (BLOCK_TOKENS if agent == REMEMBERING else 0),
                preamble=repr(PREAMBLE),
                memory="true" if agent == REMEMBERING else "false",
                mcp_tools="[{server: waiter}]" if agent == USING_TOOLS else "[]",
            )
            for agent in self._agents
        ]
        config = directory / "coulisse.yaml"
        for path, recorded, more in (
            (config, "false", ""),
            (directory / RECORDED, "true", ""),
            (directory / GUARDED, "false", GUARD),
        ):
            path.write_text(self._config(recorded) + "".join(agents) + more)
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
        kept = {
            key: value
            for key, value in os.environ.items()
            if not key.startswith(("COULISSE_", "DJANGO_"))
            and key not in {"DATABASE_URL", "REDIS_URL", "DEBUG"}
        }
        return {
            **kept,
            "COULISSE_CONFIG": str(project / "coulisse.yaml"),
            "DJANGO_SETTINGS_MODULE": "coulisse_site.settings",
            "PYTHONPATH": str(ROOT),
        }

    @cached_property
    def tool_server_port(self) -> int:
        # Asked for late, for it takes a second to start.
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
        """Run a web process as the supervisor does, on a project of its own."""
        environment = self.project(name, users, known or [])
        with self.serving("processes.web", environment) as process:
            yield process

    @contextmanager
    def other_web(self, name: str, config: str) -> Iterator[MeasuredProcess]:
        """Run another on the same project, with `RECORDED` or `GUARDED`."""
        path = self._directory / name
        environment = self._other(name, config)
        with (
            open(path / "log", "wb") as log,
            self.serving("processes.web", environment, stderr=log) as process,
        ):
            yield process

    def mint(self, name: str, user: str) -> str:
        """Return the secret of a new API token of a user, with a budget."""
        command = ["manage.py", "token", "create", "bench", "--principal", user]
        minted = subprocess.run(
            [sys.executable, *command, "--budget", "monthly", "--limit", "1000000"],
            env=self._other(name, GUARDED),
            cwd=ROOT,
            check=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        return minted.stdout.decode().strip()

    def _other(self, name: str, config: str) -> dict[str, str]:
        path = self._directory / name
        return {**self._environment(path), "COULISSE_CONFIG": str(path / config)}

    @contextmanager
    def floor(self, *arguments: str) -> Iterator[MeasuredProcess]:
        """Run the floor."""
        environment = {
            **os.environ,
            "BENCH_PROVIDER": self.provider_url,
            "PYTHONPATH": str(ROOT),
        }
        with self.serving("bench.floor", environment, *arguments) as process:
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
        # It ends when the other end of this pipe does.
        lifeline, other_end = os.pipe()
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            listener.listen(1024)
            fd = listener.fileno()
            port = listener.getsockname()[1]
            fds = ["--fd", str(fd), "--parent-pipe", str(lifeline)]
            popen = subprocess.Popen(
                [*prefix, sys.executable, "-P", "-m", module, *fds, *arguments],
                env=environment,
                cwd=cwd,
                pass_fds=(fd, lifeline),
                stdin=subprocess.DEVNULL,
                stderr=stderr,
                process_group=0,
            )
        os.close(lifeline)
        try:
            yield MeasuredProcess(port, popen)
        finally:
            popen.terminate()
            try:
                popen.wait(15)
            except subprocess.TimeoutExpired:
                popen.kill()
                popen.wait()
            os.close(other_end)

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
        """Send a load and count what it costs a server; None is the provider."""
        pipe = self._load
        pipe.stdin.write(json.dumps(asdict(load)).encode() + b"\n")
        pipe.stdin.flush()
        if pipe.stdout.readline().strip() != b"ready":
            raise RuntimeError("the load generator did not start: see above")
        before = 0.0 if process is None else process_metrics.cpu_seconds(process.pid)
        pipe.stdin.write(b"go\n")
        pipe.stdin.flush()
        over = pipe.stdout.readline()
        after = 0.0 if process is None else process_metrics.cpu_seconds(process.pid)
        if over.strip() != b"done":
            raise RuntimeError("the load generator broke off: see above")
        outcome = json.loads(self._outcome.read_text())
        return LoadSample(LoadResult(**outcome), after - before)

    def last_body(self) -> str:
        """Return the body of the last call the provider got."""
        url = f"http://127.0.0.1:{self.provider_port}/last"
        with urllib.request.urlopen(url, timeout=5) as answer:
            return answer.read().decode()

    def wait_for(
        self,
        process: MeasuredProcess,
        one: str,
        head: str = "",
        *,
        seconds: float = START_SECONDS,
    ) -> None:
        """Wait until a server answers this request."""
        until = time.monotonic() + seconds
        while True:
            outcome = self.sample(
                None, LoadRequest(process.port, [one], head=head)
            ).outcome
            if not outcome.errors:
                return
            if process.popen.poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"the server does not serve: {outcome.first_error}")
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
