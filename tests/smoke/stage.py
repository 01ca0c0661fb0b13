"""A YAML with smoke tests, and a provider that plays persona, agent and judge."""

from collections.abc import Callable, Iterable
from typing import Any

from config import live
from providers.fake import FakeProvider, Request
from providers.fake_wires import Answer
from smoke import runs
from smoke.config import SMOKE_TESTS
from smoke.models import Run
from tests.judges.stage import STAGE as JUDGED
from tests.judges.stage import answer

TESTS = """
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
"""
STAGE = JUDGED + TESTS


class Cast:
    """Who says what: by the model that is asked."""

    def __init__(self, fake: FakeProvider) -> None:
        self._fake = fake
        self.persona: Iterable[str | Answer] = ["More plums?"]
        self.agent: Iterable[str | Answer] = ["We have plums."]
        self.judge = answer(accuracy=8, tone=6)
        self._counts = {"persona": 0, "agent": 0}
        fake.default = self._answer

    def _answer(self, request: Request) -> Answer:
        model = request.body["model"]
        if "judge" in model:
            return Answer([self.judge])
        name = "persona" if "persona" in model else "agent"
        said = list(getattr(self, name))
        number = min(self._counts[name], len(said) - 1)
        self._counts[name] += 1
        chosen = said[number]
        return chosen if isinstance(chosen, Answer) else Answer([chosen])

    def asked(self, model: str) -> list[list[dict[str, Any]]]:
        """Return the messages of each request to a model."""
        return [
            request.body["messages"]
            for request in self._fake.requests
            if request.body["model"] == model
        ]


def launch(name: str = "plums", **options: Any) -> list[Run]:
    test = live.current().get(SMOKE_TESTS)[name]
    return runs.launch(test, origin="command", **options)


def said(run: Run) -> list[tuple[str, str]]:
    """Return who said what."""
    return list(run.lines.order_by("position").values_list("speaker", "text"))


Configure = Callable[[str], None]
