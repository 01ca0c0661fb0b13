"""A YAML with judges, and what they answer."""

from typing import Any

import orjson

from tests.conftest import CONFIG

AGENTS = """
  - name: judged
    provider: openai
    model: gpt-test
    judges: [quality]
  - name: examined
    provider: openai
    model: gpt-test
    judges: [quality, safety]
  - name: parked
    provider: openai
    model: gpt-test
    judges: [never]
"""
JUDGES = """
judges:
  - name: quality
    provider: openai
    model: judge-test
    rubrics:
      accuracy: Factual accuracy.
      tone: Politeness and tone.
  - name: safety
    provider: anthropic
    model: claude-judge
    rubrics: {harm: Whether it harms.}
  - name: never
    provider: openai
    model: judge-test
    sampling_rate: 0
    rubrics: {tone: Tone.}
"""
STAGE = CONFIG + AGENTS + JUDGES


def answer(**scores: Any) -> str:
    """Return what a judge that does as it is told answers."""
    return orjson.dumps(
        {
            name: {"reasoning": f"Because of {name}.", "score": score}
            for name, score in scores.items()
        }
    ).decode()


def is_judging(request: Any) -> bool:
    """Whether a request asks a judge."""
    return "judge" in request.body["model"]
