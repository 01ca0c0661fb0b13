"""A configuration with judges, and their answers."""

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
JUDGE_CONFIG = CONFIG + AGENTS + JUDGES


def answer(**scores: Any) -> str:
    """Return a valid answer of a judge."""
    return orjson.dumps(
        {
            name: {"reasoning": f"Because of {name}.", "score": score}
            for name, score in scores.items()
        }
    ).decode()


def is_judging(request: Any) -> bool:
    """Return whether a request goes to a judge's model."""
    return "judge" in request.body["model"]
