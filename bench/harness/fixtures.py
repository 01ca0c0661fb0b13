"""The setup of a measurement: servers, and users with short and long histories."""

from contextlib import ExitStack
from dataclasses import dataclass
from itertools import cycle, islice
from typing import Self

from bench.harness.server_processes import (
    CONTEXT_MESSAGES,
    MEMORY_AGENT,
    TOOL_AGENT,
    LoadSample,
    MeasuredProcess,
    ServerProcesses,
    body,
)
from bench.load import LoadRequest, LoadResult

SHORT = CONTEXT_MESSAGES
SHORT_STREAM = "stream-4-1"
"""The agent of streams of which only the first token is measured."""


@dataclass(frozen=True)
class BenchSizes:
    """The sizes of a measurement."""

    rounds: int = 9
    turns: int = 250
    """Turns of each kind in a round."""
    short_users: int = 2_000
    known_users: int = 50
    """Users with facts."""
    long_users: int = 4
    stored: int = 20_000
    """Messages of a user with a long history."""
    stream_tokens: int = 150
    streams: tuple[int, ...] = (64, 128, 256)
    stream_rounds: int = 2
    memory_turns: int = 10_000
    memory_users: int = 5_000

    @property
    def paced(self) -> str:
        return f"stream-{self.stream_tokens}-20"


SMALL = BenchSizes(
    rounds=1,
    turns=10,
    short_users=20,
    known_users=2,
    long_users=1,
    stored=200,
    stream_tokens=5,
    streams=(4,),
    stream_rounds=1,
    memory_turns=40,
    memory_users=10,
)


class BenchSetup:
    """Running servers, and users to send requests as."""

    def __init__(self, sizes: BenchSizes) -> None:
        self.sizes = sizes
        self._short = [(f"short-{n}", SHORT) for n in range(sizes.short_users)]
        self._long = [(f"long-{n}", sizes.stored) for n in range(sizes.long_users)]
        self._short_names = cycle(name for name, _ in self._short)
        self._long_names = cycle(name for name, _ in self._long)
        self._stack = ExitStack()
        self._errors: list[LoadResult] = []

    def __enter__(self) -> Self:
        agents = ["reply", SHORT_STREAM, self.sizes.paced, MEMORY_AGENT, TOOL_AGENT]
        known = [(f"known-{n}", SHORT) for n in range(self.sizes.known_users)]
        self.known = [name for name, _ in known]
        with ExitStack() as stack:
            self.processes = stack.enter_context(ServerProcesses(agents))
            users = [*self._short, *self._long, *known]
            # The baselines start while the database is filled.
            self.baseline = stack.enter_context(self.processes.baseline())
            self.stock = stack.enter_context(self.processes.baseline("--stock"))
            self.web = stack.enter_context(
                self.processes.web("project", users, self.known)
            )
            self.servers = (self.web, self.baseline, self.stock)
            for server in self.servers:
                self.processes.wait_for(server, body("reply", "warm"))
            self._check_context()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *exc: object) -> None:
        self._stack.close()

    def _check_context(self) -> None:
        """Check at the provider that the prompt has the expected size."""
        for user in ("short-0", "long-0"):
            self.sample(self.web, [body("reply", user)])
            self.prompt = self.processes.last_body()
            count = self.prompt.count('"role":')
            # Besides the history it contains the preamble and the question.
            if count != SHORT + 2:
                raise RuntimeError(
                    f"the provider received {count - 2} messages of history instead "
                    f"of {SHORT}: correct bench/harness/server_processes.py"
                )
        for server in self.servers:
            self.sample(server, self.short(self.sizes.turns), connections=4)

    def short(self, count: int, agent: str = "reply") -> list[str]:
        """Return requests of users with a short history."""
        return [body(agent, user) for user in islice(self._short_names, count)]

    def long(self, count: int) -> list[str]:
        """Return requests of users with a long history."""
        return [body("reply", user) for user in islice(self._long_names, count)]

    def direct(self, count: int, agent: str = "reply") -> list[str]:
        """Return requests for the provider itself."""
        return [self.prompt.replace('"model":"reply"', f'"model":"{agent}"')] * count

    def sample(
        self,
        process: MeasuredProcess | None,
        bodies: list[str],
        *,
        connections: int = 1,
        tokens: int = 0,
        spread_seconds: float = 0.0,
    ) -> LoadSample:
        """Send requests to a server, or to the provider itself."""
        port = self.processes.provider_port if process is None else process.port
        load = LoadRequest(port, bodies, connections, tokens, spread_seconds)
        return self.send(process, load)

    def send(self, process: MeasuredProcess | None, load: LoadRequest) -> LoadSample:
        """Send a load, and measure its cost for a server."""
        sample = self.processes.sample(process, load)
        self._errors.append(sample.outcome)
        return sample

    @property
    def errors(self) -> int:
        return sum(outcome.errors for outcome in self._errors)

    @property
    def first_error(self) -> str:
        return next((o.first_error for o in self._errors if o.errors), "")
