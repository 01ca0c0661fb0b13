"""A configuration with smoke tests, and scripted models for all its roles."""

import threading
from collections.abc import Sequence
from typing import Any

from access.limits import usage_limits
from smoke.models import SmokeRun
from testing.scripted_provider import FakeProvider, RecordedRequest
from testing.wires import ScriptedAnswer
from tests.conftest import CONFIG
from tests.judges.sample_judges import AGENTS as JUDGED_AGENTS
from tests.judges.sample_judges import JUDGES, answer

AGENTS = """
  - name: boss
    provider: openai
    model: gpt-test
    subagents: [tuned]
    memory_tools: true
"""
TESTS = """
tasks: {}

experiments:
  - name: greeter
    strategy: split
    variants: [{agent: assistant}, {agent: tuned}]

prices:
  openai: {"*": {input: 1, output: 1}}

smoke_tests:
  - name: plums
    target: assistant
    persona: &persona
      provider: openai
      model: persona-test
      preamble: You want to buy plums.
      temperature: 0.0
    stop_marker: "[FIN]"
    max_turns: 3
  - name: judged
    target: judged
    persona: *persona
    max_turns: 2
    expect:
      min_score: {quality.accuracy: 7}
"""
SMOKE_CONFIG = CONFIG + JUDGED_AGENTS + AGENTS + JUDGES + TESTS

ScriptedReply = str | ScriptedAnswer


class ScriptedModels:
    """Scripted replies by role; the last one is repeated."""

    def __init__(self, fake: FakeProvider) -> None:
        self.fake = fake
        self.persona: Sequence[ScriptedReply] = ["More plums?"]
        self.agent: Sequence[ScriptedReply] = ["We have plums."]
        self.judge: ScriptedReply = answer(accuracy=8, tone=6)
        self._counts = {"persona": 0, "agent": 0}
        self._turns = threading.Lock()
        fake.default = self._answer

    def _answer(self, request: RecordedRequest) -> ScriptedAnswer:
        model = request.body["model"]
        reply = self.judge if "judge" in model else self._next(model)
        return reply if isinstance(reply, ScriptedAnswer) else ScriptedAnswer([reply])

    def _next(self, model: str) -> ScriptedReply:
        name = "persona" if "persona" in model else "agent"
        replies = self.persona if name == "persona" else self.agent
        with self._turns:
            number = min(self._counts[name], len(replies) - 1)
            self._counts[name] += 1
        return replies[number]

    def requests_to(self, model: str) -> list[dict[str, Any]]:
        """Return the bodies of the requests to a model."""
        bodies = [request.body for request in self.fake.requests]
        return [body for body in bodies if body["model"] == model]


def with_test(fields: str, *, target: str = "assistant") -> str:
    """Return the configuration with an additional test, `mine`."""
    return (
        f"{SMOKE_CONFIG}  - name: mine\n    target: {target}\n    persona: *persona\n"
        + "".join(f"    {line}\n" for line in fields.strip().splitlines())
    )


def transcript(run: SmokeRun) -> list[tuple[str, str]]:
    """Return the speakers and texts of a run."""
    return list(run.messages.order_by("position").values_list("speaker", "text"))


def counter_subject(run: SmokeRun) -> str:
    """Return the subject under which usage of a run's user would be counted."""
    return usage_limits.user_subject(run.user_id)
