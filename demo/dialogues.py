"""Scripted dialogues of the demo, with placeholders for random words."""

import random
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import orjson
from ruamel.yaml import YAML

FILE = Path(__file__).with_name("dialogues.yaml")
PLACEHOLDER = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True)
class CallStep:
    """A call of a tool or of another agent."""

    name: str
    target: str
    """The server or the agent."""
    kind: str
    arguments: Any
    result: str | None = None
    error: str | None = None
    seconds: float | None = None
    calls: Sequence["CallStep"] = ()

    @property
    def arguments_json(self) -> str:
        """The arguments as JSON text, like a model writes them."""
        return orjson.dumps(self.arguments).decode()


@dataclass(frozen=True)
class ScriptedFact:
    """A fact about the user that an exchange contains."""

    key: str
    category: str
    content: str
    importance: int
    replaces: str = ""
    """The key of the fact that it replaces."""
    held_for: str = ""
    """Why it is pending review; "" if it is active."""


@dataclass(frozen=True)
class ScriptedIncident:
    """What a safety check finds in the message of an exchange."""

    check: str
    level: str
    reason: str


@dataclass(frozen=True)
class ScriptedExchange:
    """A message, its calls and the reply."""

    user: str
    reply: str
    calls: Sequence[CallStep] = ()
    facts: Sequence[ScriptedFact] = ()
    incident: ScriptedIncident | None = None


@dataclass(frozen=True)
class ScriptedDialogue:
    """A conversation with one agent or experiment."""

    agent: str
    thread: str = ""
    exchanges: Sequence[ScriptedExchange] = ()
    episode: str = ""
    """What happened in it; "" if nothing did."""
    state: Mapping[str, Any] = field(default_factory=dict)
    """The state of the agent at its end."""


@dataclass(frozen=True)
class DialogueFile:
    """The content of the dialogue file."""

    words: Mapping[str, Sequence[str]]
    tools: Mapping[str, str]
    dialogues: Sequence[Mapping[str, Any]]

    def iterate(
        self, rng: random.Random, first: str, agents: Collection[str]
    ) -> Iterator[ScriptedDialogue]:
        """Yield a user's dialogues with these agents, endlessly.

        All dialogues appear before one repeats.
        """
        usable = [each for each in self.dialogues if each["agent"] in agents]
        while True:
            # Dialogues with a higher weight tend to come first.
            usable.sort(key=lambda d: -(rng.random() ** (1 / d.get("weight", 1))))
            for data in usable:
                yield self.fill(data, rng, first)

    def fill(
        self, data: Mapping[str, Any], rng: random.Random, first: str
    ) -> ScriptedDialogue:
        """Return a dialogue with random words for its placeholders."""
        words = {name: rng.choice(each) for name, each in self.words.items()}
        return self._dialogue(_fill(data, {**words, "first": first}))

    def _dialogue(self, data: Mapping[str, Any]) -> ScriptedDialogue:
        exchanges = [
            ScriptedExchange(
                each["user"],
                each["reply"],
                [self._step(call) for call in each.get("calls", ())],
                [ScriptedFact(**fact) for fact in each.get("facts", ())],
                _incident(each.get("incident")),
            )
            for each in data["exchanges"]
        ]
        return ScriptedDialogue(
            data["agent"],
            data.get("thread", ""),
            exchanges,
            data.get("episode", ""),
            data.get("state", {}),
        )

    def _step(self, data: Mapping[str, Any]) -> CallStep:
        result = data.get("result")
        if result is not None and not isinstance(result, str):
            result = orjson.dumps(result).decode()
        if "ask" in data:
            name = target = data["ask"]
            kind, arguments = "subagent", {"message": data["message"]}
        else:
            name, arguments = data["tool"], data["arguments"]
            target = self.tools[name]
            kind = target if target in ("memory", "task") else "mcp"
        return CallStep(
            name,
            target if kind in ("mcp", "subagent") else "",
            kind,
            arguments,
            result,
            data.get("error"),
            data.get("seconds"),
            calls=[self._step(call) for call in data.get("calls", ())],
        )


def _incident(data: Mapping[str, str] | None) -> ScriptedIncident | None:
    return None if data is None else ScriptedIncident(**data)


@cache
def load_dialogues() -> DialogueFile:
    """Return the content of the dialogue file."""
    return DialogueFile(**YAML(typ="safe").load(FILE))


def _fill(value: Any, words: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        return PLACEHOLDER.sub(lambda match: words[match[1]], value)
    if isinstance(value, Mapping):
        return {name: _fill(each, words) for name, each in value.items()}
    if isinstance(value, Sequence):
        return [_fill(each, words) for each in value]
    return value
