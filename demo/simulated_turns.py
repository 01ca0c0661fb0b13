"""Simulates turns from scripted exchanges: their calls, durations and costs."""

import math
import random
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import orjson

from agents.config import AGENTS, AgentConfig
from config.sections import Config
from core import token_estimates, trace
from core.events import Usage
from core.ids import TurnId
from core.messages import Message, ToolCall
from core.trace import Attempt, Call, ModelCall, TracedToolCall
from demo.dialogues import CallStep, ScriptedExchange
from memory.transcript.message_rows import NewMessage
from providers.pricing import call_costs
from safety.config import NO_LEVEL, SAFETY, SafetyCheck
from safety.detection.config import ControlModelConfig
from safety.finding import Finding
from telemetry.types import Outcome

PROVIDER_ERROR = "provider '{}' failed (HTTP 529): Overloaded"
CANCEL_RATE = 0.012
"""Share of replies that users cancel."""
CHECK_FAILURE_RATE = 0.04
"""Share of calls of control models that fail."""
CHECK_TOKENS = 260
"""Tokens of a control model's instructions."""
OPENERS = ("How lovely that you write!", "What a good choice.", "With pleasure!")
PREAMBLE_TOKENS = 420
"""Tokens of the preamble and the tool definitions in a prompt."""


@dataclass
class TurnClock:
    """The simulated time within a turn."""

    at: datetime
    rng: random.Random

    def spend(self, seconds: float) -> float:
        """Advance by about so many seconds; return the exact number."""
        spent = seconds * math.exp(self.rng.gauss(0, 0.35))
        self.at += timedelta(seconds=spent)
        return spent


@dataclass
class SimulatedTurn:
    """The result of an exchange."""

    turn_id: TurnId
    agent: str
    question: str
    started_at: datetime
    ended_at: datetime
    outcome: Outcome
    finish_reason: str
    error: str | None
    calls: list[Call] = field(default_factory=list)
    entries: list[NewMessage] = field(default_factory=list)
    """Its messages, as in the transcript."""
    findings: list[Finding] = field(default_factory=list)
    """The findings of safety checks."""

    @property
    def seconds(self) -> float:
        return (self.ended_at - self.started_at).total_seconds()

    @property
    def reply(self) -> str:
        return self.entries[-1].message.text if self.entries else ""


class AgentSimulator:
    """Simulates the agents of one configuration."""

    def __init__(self, config: Config, rng: random.Random) -> None:
        self.config = config
        self.agents = config.get(AGENTS)
        self.rng = rng
        self.checks = config.get(SAFETY).checks

    def simulate(
        self,
        exchange: ScriptedExchange,
        agent: str,
        at: datetime,
        *,
        history_tokens: int = 0,
        failure_rate: float = 0.0,
        turn_id: TurnId | None = None,
    ) -> SimulatedTurn:
        """Return an exchange as a turn that started at `at`.

        `history_tokens` is the size of the conversation before it.
        """
        clock = TurnClock(at, self.rng)
        turn = SimulatedTurn(
            turn_id or turn_id_of(at, self.rng),
            agent,
            exchange.user,
            started_at=at,
            ended_at=at,
            outcome="ok",
            finish_reason="stop",
            error=None,
        )
        prompt = (
            PREAMBLE_TOKENS
            + history_tokens
            + token_estimates.estimate_text(exchange.user)
        )
        if self.rng.random() < failure_rate:
            self._fail(turn, clock, prompt)
        else:
            self._check(turn, exchange, clock)
            self._answer(turn, exchange, clock, prompt)
        turn.ended_at = clock.at
        return turn

    def _fail(self, turn: SimulatedTurn, clock: TurnClock, prompt: int) -> None:
        agent = self.agents[turn.agent]
        turn.outcome, turn.finish_reason = "error", ""
        turn.error = PROVIDER_ERROR.format(agent.provider)
        call = ModelCall(agent.name, agent.provider, agent.model, started_at=clock.at)
        call.attempts = [
            Attempt("", clock.spend(wait), turn.error) for wait in (1.1, 2.4, 4.8)
        ]
        call.seconds = (clock.at - turn.started_at).total_seconds()
        call.error = turn.error
        turn.calls.append(call)

    def _answer(
        self,
        turn: SimulatedTurn,
        exchange: ScriptedExchange,
        clock: TurnClock,
        prompt: int,
    ) -> None:
        agent = self.agents[turn.agent]
        reply = exchange.reply
        if agent.name == "front-desk-warm" and self.rng.random() < 0.6:
            reply = f"{self.rng.choice(OPENERS)} {reply}"
        is_cancelled = self.rng.random() < CANCEL_RATE
        if is_cancelled:
            reply = reply[: self.rng.randrange(1, len(reply))]
            turn.outcome = "cancelled"
            turn.finish_reason = ""
        turn.entries.append(_entry(Message("user", exchange.user)))
        turn.calls += self._rounds(agent, exchange.calls, reply, clock, prompt)
        turn.entries += _tool_messages(turn.calls)
        finish_reason = "cancelled" if is_cancelled else "stop"
        turn.entries.append(
            _entry(Message("assistant", reply), agent.name, finish_reason)
        )

    def _check(
        self, turn: SimulatedTurn, exchange: ScriptedExchange, clock: TurnClock
    ) -> None:
        """Run the checks of the message; only control models are recorded calls."""
        incident = exchange.incident
        for check in self.checks:
            if check.agents != "all" and turn.agent not in check.agents:
                continue
            is_found = incident is not None and incident.check == check.name
            level = incident.level if incident is not None and is_found else ""
            error = ""
            if (model := check.by.model) is not None:
                call = self._safety_call(check, model, turn, level, clock)
                turn.calls.append(call)
                error = call.error or ""
            if error:
                turn.findings.append(Finding(check, "", error))
            elif incident is not None and level:
                excerpt = "" if check.by.pii is not None else exchange.user
                turn.findings.append(Finding(check, level, incident.reason, excerpt))

    def _safety_call(
        self,
        check: SafetyCheck,
        model: ControlModelConfig,
        turn: SimulatedTurn,
        level: str,
        clock: TurnClock,
    ) -> TracedToolCall:
        """Return a call of a control model, which fails now and then."""
        arguments = orjson.dumps({"when": check.when, "by": check.by.kind}).decode()
        call = TracedToolCall(check.name, "safety", arguments, started_at=clock.at)
        asked = ModelCall(turn.agent, model.provider, model.model, started_at=clock.at)
        call.calls = [asked]
        if self.rng.random() < CHECK_FAILURE_RATE:
            call.seconds = asked.seconds = clock.spend(check.timeout_seconds)
            call.error = f"no answer within {check.timeout_seconds:g} seconds"
            asked.error = call.error
            return call
        text_tokens = token_estimates.estimate_text(turn.question)
        asked.usage = Usage(CHECK_TOKENS + text_tokens, 4)
        asked.finish_reason = "stop"
        asked.cost_micro_usd = price(
            self.config, model.provider, model.model, asked.usage, clock.at
        )
        call.seconds = asked.seconds = clock.spend(0.35)
        call.result = level or NO_LEVEL
        return call

    def _rounds(
        self,
        agent: AgentConfig,
        steps: Sequence[CallStep],
        reply: str,
        clock: TurnClock,
        prompt: int,
    ) -> Iterator[Call]:
        """Yield the calls of a model and of its tools, until the model replies."""
        for number, step in enumerate(steps):
            arguments = step.arguments_json
            yield self._model_call(
                agent, arguments, "tool_calls", clock, prompt, number
            )
            call = self._tool_call(step, clock)
            yield call
            result = call.result or call.error or ""
            prompt += token_estimates.estimate_text(
                arguments
            ) + token_estimates.estimate_text(result)
        yield self._model_call(agent, reply, "stop", clock, prompt, len(steps))

    def _model_call(
        self,
        agent: AgentConfig,
        text: str,
        finish_reason: str,
        clock: TurnClock,
        prompt: int,
        number: int,
    ) -> ModelCall:
        call = ModelCall(agent.name, agent.provider, agent.model, started_at=clock.at)
        output = token_estimates.estimate_text(text) + 8
        # Anthropic's prompts are cached from the second call of a turn on.
        cached = prompt * 3 // 4 if number and agent.provider == "anthropic" else 0
        call.usage = Usage(prompt, output, cache_read_tokens=cached)
        call.seconds = clock.spend(0.45 + output / (45 + 60 * (number == 0)))
        call.finish_reason = finish_reason
        call.cost_micro_usd = price(
            self.config, agent.provider, agent.model, call.usage, call.started_at
        )
        return call

    def _tool_call(self, step: CallStep, clock: TurnClock) -> TracedToolCall:
        call = TracedToolCall(
            step.name,
            step.kind,  # type: ignore[arg-type]
            step.arguments_json,
            id=f"call_{self.rng.getrandbits(64):016x}",
            target=step.target,
            started_at=clock.at,
        )
        if step.kind == "subagent":
            agent = self.agents[step.target]
            prompt = (
                token_estimates.estimate_text(step.arguments_json) + PREAMBLE_TOKENS
            )
            reply = step.result or ""
            call.calls = [*self._rounds(agent, step.calls, reply, clock, prompt)]
            call.seconds = (clock.at - call.started_at).total_seconds()
        else:
            call.seconds = clock.spend(step.seconds or 0.18)
        call.result, call.error = step.result, step.error
        return call


def _tool_messages(calls: Sequence[Call]) -> Iterator[NewMessage]:
    for call in calls:
        if isinstance(call, TracedToolCall) and call.kind != "safety":
            own_calls = frozenset({call.id})
            tool_call = ToolCall(call.id, call.name, call.arguments)
            yield _entry(
                Message("assistant", None, tool_calls=(tool_call,)), own_calls=own_calls
            )
            text = call.result if call.error is None else f"Error: {call.error}"
            message = Message("tool", text, tool_call_id=call.id)
            yield _entry(message, own_calls=own_calls)


def _entry(
    message: Message,
    agent: str = "",
    finish_reason: str = "",
    own_calls: frozenset[str] = frozenset(),
) -> NewMessage:
    return NewMessage(
        message,
        token_estimates.estimate_message(message),
        agent,
        finish_reason,
        0.3 if message.role == "tool" else 0.5,
        own_calls,
    )


def random_uuid(rng: random.Random) -> uuid.UUID:
    return uuid.UUID(int=rng.getrandbits(128), version=4)


def turn_id_of(at: datetime, rng: random.Random) -> TurnId:
    """Return the id of a turn that started at `at`, like `core.ids` does."""
    number = int(at.timestamp() * 1000) << 80 | rng.getrandbits(80)
    number = number & ~(0xF << 76) | 7 << 76
    return TurnId(uuid.UUID(int=number & ~(0x3 << 62) | 2 << 62))


def price(
    config: Config, provider: str, model: str, usage: Usage, at: datetime
) -> int | None:
    """Return the cost of a call, or None if it is unknown."""
    tariff = call_costs.find_tariff(config, provider, model)
    return tariff.rates(usage.input_tokens, at).cost(usage) if tariff else None


def total_usage(calls: list[Call]) -> tuple[Usage, int | None]:
    """Return the total usage and cost of a turn's calls."""
    return trace.total_usage(calls), trace.total_cost(calls)
