"""Scripted dialogues of the demo, with placeholders that are filled each time."""

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
PLACE = re.compile(r"\{(\w+)\}")


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
    def written(self) -> str:
        """The arguments, as a model writes them."""
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


@dataclass(frozen=True)
class ScriptedExchange:
    """A message, its calls and the reply."""

    user: str
    reply: str
    calls: Sequence[CallStep] = ()
    facts: Sequence[ScriptedFact] = ()


@dataclass(frozen=True)
class ScriptedDialogue:
    """A conversation with one agent or experiment."""

    agent: str
    thread: str = ""
    exchanges: Sequence[ScriptedExchange] = ()
    facts: Sequence[ScriptedFact] = field(default=())


@dataclass(frozen=True)
class DialogueFile:
    """All dialogues as they are in the file."""

    words: Mapping[str, Sequence[str]]
    tools: Mapping[str, str]
    dialogues: Sequence[Mapping[str, Any]]
    weights: Sequence[int]

    def draws(
        self, chance: random.Random, first: str, agents: Collection[str]
    ) -> Iterator[ScriptedDialogue]:
        """Yield dialogues of a user with these agents, without end.

        All of them appear before one repeats.
        """
        mine = [n for n, each in enumerate(self.dialogues) if each["agent"] in agents]
        while True:
            # Those that weigh more tend to come first.
            mine.sort(key=lambda n: -(chance.random() ** (1 / self.weights[n])))
            for number in mine:
                yield self.fill(number, chance, first)

    def fill(self, number: int, chance: random.Random, first: str) -> ScriptedDialogue:
        """Return a dialogue with words drawn for its places."""
        told = self.dialogues[number]
        words = {name: chance.choice(each) for name, each in self.words.items()}
        return self._dialogue(_fill(told, {**words, "first": first}))

    def _dialogue(self, told: Mapping[str, Any]) -> ScriptedDialogue:
        exchanges = [
            ScriptedExchange(
                each["user"],
                each["reply"],
                [self._step(call) for call in each.get("calls", ())],
                [ScriptedFact(**fact) for fact in each.get("facts", ())],
            )
            for each in told["exchanges"]
        ]
        return ScriptedDialogue(told["agent"], told.get("thread", ""), exchanges)

    def _step(self, told: Mapping[str, Any]) -> CallStep:
        result = told.get("result")
        if result is not None and not isinstance(result, str):
            result = orjson.dumps(result).decode()
        if "ask" in told:
            name = target = told["ask"]
            kind, arguments = "subagent", {"message": told["message"]}
        else:
            name, arguments = told["tool"], told["arguments"]
            target = self.tools[name]
            kind = target if target in ("memory", "task") else "mcp"
        return CallStep(
            *(name, target if kind in ("mcp", "subagent") else "", kind, arguments),
            *(result, told.get("error"), told.get("seconds")),
            calls=[self._step(each) for each in told.get("calls", ())],
        )


@cache
def load_dialogues() -> DialogueFile:
    """Return the file's dialogues."""
    told = YAML(typ="safe").load(FILE)
    dialogues = told["dialogues"]
    return DialogueFile(
        told["words"],
        told["tools"],
        dialogues,
        [each.get("weight", 1) for each in dialogues],
    )


def _fill(told: Any, words: Mapping[str, str]) -> Any:
    if isinstance(told, str):
        return PLACE.sub(lambda place: words[place[1]], told)
    if isinstance(told, Mapping):
        return {name: _fill(each, words) for name, each in told.items()}
    if isinstance(told, Sequence):
        return [_fill(each, words) for each in told]
    return told
