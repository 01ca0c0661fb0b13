"""One exchange as a turn: what it called, how long that took, what it cost."""

import math
import random
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from agents.config import AGENTS, AgentConfig
from config.sections import Config
from core import token_estimates, trace
from core.events import Usage
from core.ids import TurnId
from core.messages import Message
from core.messages import ToolCall as Asked
from core.trace import Attempt, Call, ModelCall, TracedToolCall
from demo.dialogues import CallStep, ScriptedExchange
from memory.transcript.message_rows import NewMessage
from providers.pricing import call_costs
from telemetry.types import Outcome

FAILED = "provider '{}' failed (HTTP 529): Overloaded"
LEFT = 0.012
"""The share of people who leave in the middle of a reply."""
OPENERS = ("How lovely that you write!", "What a good choice.", "With pleasure!")
PREAMBLE_TOKENS = 420
"""Of a prompt, beside the conversation: the preamble and what the tools are."""


@dataclass
class TurnClock:
    """The time within a turn."""

    at: datetime
    chance: random.Random

    def spend(self, seconds: float) -> float:
        """Let about so much time go by; return how much it was."""
        spent = seconds * math.exp(self.chance.gauss(0, 0.35))
        self.at += timedelta(seconds=spent)
        return spent


@dataclass
class SimulatedTurn:
    """What became of an exchange."""

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
    """The messages of it, as the transcript has them."""

    @property
    def seconds(self) -> float:
        return (self.ended_at - self.started_at).total_seconds()

    @property
    def reply(self) -> str:
        return self.entries[-1].message.text if self.entries else ""


class AgentSimulator:
    """Plays exchanges as the agents of one configuration would."""

    def __init__(self, config: Config, chance: random.Random) -> None:
        self.config = config
        self.agents = config.get(AGENTS)
        self.chance = chance

    def simulate(
        self,
        exchange: ScriptedExchange,
        agent: str,
        at: datetime,
        *,
        said_tokens: int = 0,
        trouble: float = 0.0,
        turn_id: TurnId | None = None,
    ) -> SimulatedTurn:
        """Return an exchange as a turn that began then.

        `said_tokens` are those of the conversation before it, `trouble` is the chance
        that the provider fails.
        """
        clock = TurnClock(at, self.chance)
        played = SimulatedTurn(
            *(turn_id or turn_id_of(at, self.chance), agent, exchange.user, at, at),
            *("ok", "stop", None),
        )
        prompt = (
            PREAMBLE_TOKENS + said_tokens + token_estimates.estimate_text(exchange.user)
        )
        if self.chance.random() < trouble:
            self._fail(played, clock, prompt)
        else:
            self._answer(played, exchange, clock, prompt)
        played.ended_at = clock.at
        return played

    def _fail(self, played: SimulatedTurn, clock: TurnClock, prompt: int) -> None:
        agent = self.agents[played.agent]
        played.outcome, played.finish_reason = "error", ""
        played.error = FAILED.format(agent.provider)
        call = ModelCall(agent.name, agent.provider, agent.model, started_at=clock.at)
        call.attempts = [
            Attempt("", clock.spend(wait), played.error) for wait in (1.1, 2.4, 4.8)
        ]
        call.seconds = (clock.at - played.started_at).total_seconds()
        call.error = played.error
        played.calls.append(call)

    def _answer(
        self,
        played: SimulatedTurn,
        exchange: ScriptedExchange,
        clock: TurnClock,
        prompt: int,
    ) -> None:
        agent = self.agents[played.agent]
        reply = exchange.reply
        if agent.name == "front-desk-warm" and self.chance.random() < 0.6:
            reply = f"{self.chance.choice(OPENERS)} {reply}"
        has_left = self.chance.random() < LEFT
        if has_left:
            reply = reply[: self.chance.randrange(1, len(reply))]
            played.outcome = "cancelled"
            played.finish_reason = ""
        played.entries.append(_entry(Message("user", exchange.user)))
        played.calls = [*self._rounds(agent, exchange.calls, reply, clock, prompt)]
        played.entries += _rounds_said(played.calls)
        said = Message("assistant", reply)
        how = "cancelled" if has_left else "stop"
        played.entries.append(_entry(said, agent.name, how))

    def _rounds(
        self,
        agent: AgentConfig,
        steps: Sequence[CallStep],
        reply: str,
        clock: TurnClock,
        prompt: int,
    ) -> Iterator[Call]:
        """Yield a model's call and the tool's it asks for, until it answers."""
        for number, step in enumerate(steps):
            written = step.written
            yield self._ask(agent, written, "tool_calls", clock, prompt, number)
            call = self._call(step, clock)
            yield call
            answered = call.result or call.error or ""
            prompt += token_estimates.estimate_text(
                written
            ) + token_estimates.estimate_text(answered)
        yield self._ask(agent, reply, "stop", clock, prompt, len(steps))

    def _ask(
        self,
        agent: AgentConfig,
        said: str,
        finish_reason: str,
        clock: TurnClock,
        prompt: int,
        number: int,
    ) -> ModelCall:
        call = ModelCall(agent.name, agent.provider, agent.model, started_at=clock.at)
        output = token_estimates.estimate_text(said) + 8
        # Anthropic's prompts are cached from the second call of a turn on.
        cached = prompt * 3 // 4 if number and agent.provider == "anthropic" else 0
        call.usage = Usage(prompt, output, cache_read_tokens=cached)
        call.seconds = clock.spend(0.45 + output / (45 + 60 * (number == 0)))
        call.finish_reason = finish_reason
        call.cost_micro_usd = price(
            self.config, agent.provider, agent.model, call.usage, call.started_at
        )
        return call

    def _call(self, step: CallStep, clock: TurnClock) -> TracedToolCall:
        call = TracedToolCall(
            *(step.name, step.kind, step.written),  # type: ignore[arg-type]
            id=f"call_{self.chance.getrandbits(64):016x}",
            target=step.target,
            started_at=clock.at,
        )
        if step.kind == "subagent":
            agent = self.agents[step.target]
            said = token_estimates.estimate_text(step.written) + PREAMBLE_TOKENS
            reply = step.result or ""
            call.calls = [*self._rounds(agent, step.calls, reply, clock, said)]
            call.seconds = (clock.at - call.started_at).total_seconds()
        else:
            call.seconds = clock.spend(step.seconds or 0.18)
        call.result, call.error = step.result, step.error
        return call


def _rounds_said(calls: Sequence[Call]) -> Iterator[NewMessage]:
    """Yield what the transcript has of the calls of tools."""
    for call in calls:
        if isinstance(call, TracedToolCall):
            own = frozenset({call.id})
            asked = Asked(call.id, call.name, call.arguments)
            yield _entry(Message("assistant", None, tool_calls=(asked,)), own_calls=own)
            answer = call.result if call.error is None else f"Error: {call.error}"
            said = Message("tool", answer, tool_call_id=call.id)
            yield _entry(said, own_calls=own)


def _entry(
    message: Message,
    agent: str = "",
    finish_reason: str = "",
    own_calls: frozenset[str] = frozenset(),
) -> NewMessage:
    return NewMessage(
        *(message, token_estimates.estimate_message(message), agent, finish_reason),
        *(0.3 if message.role == "tool" else 0.5, own_calls),
    )


def uuid_of(chance: random.Random) -> uuid.UUID:
    """Return an id that is nobody else's."""
    return uuid.UUID(int=chance.getrandbits(128), version=4)


def turn_id_of(at: datetime, chance: random.Random) -> TurnId:
    """Return the id of a turn that began then, as `core.ids` makes them."""
    number = int(at.timestamp() * 1000) << 80 | chance.getrandbits(80)
    number = number & ~(0xF << 76) | 7 << 76
    return TurnId(uuid.UUID(int=number & ~(0x3 << 62) | 2 << 62))


def price(
    config: Config, provider: str, model: str, usage: Usage, at: datetime
) -> int | None:
    """Return what a call costs; without a word where nobody knows."""
    tariff = call_costs.find_tariff(config, provider, model)
    return tariff.rates(usage.input_tokens, at).cost(usage) if tariff else None


def used(calls: list[Call]) -> tuple[Usage, int | None]:
    """Return what all calls of a turn used together, and cost."""
    return trace.total_usage(calls), trace.total_cost(calls)
