"""Fixtures for judge tasks: a worker, and scripted answers of judges."""

from typing import Any

import pytest

from testing.wires import ScriptedAnswer
from tests.judges.sample_judges import JUDGE_CONFIG, answer, is_judging
from tests.tasks.conftest import task_runner, user_id  # noqa: F401


@pytest.fixture
def worker(task_runner, configure):  # noqa: F811
    """A worker with judges in its configuration."""
    configure(JUDGE_CONFIG)
    return task_runner


@pytest.fixture
def judge(fake):
    """A list of the next answers of judges; agents reply "Paris."."""
    script: list[str | ScriptedAnswer] = []

    def reply(request: Any) -> ScriptedAnswer:
        if not is_judging(request):
            return ScriptedAnswer(["Paris."])
        text = script.pop(0) if script else answer(accuracy=9, tone=7, harm=1)
        return text if isinstance(text, ScriptedAnswer) else ScriptedAnswer([text])

    fake.default = reply
    return script
