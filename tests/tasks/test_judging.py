"""Replies are judged in the background, and the scores stored."""

import pytest

from access import identity
from judges.models import Score
from providers.fake_wires import Answer
from tasks.models import Task
from tests.gateway.calls import ask
from tests.judges.stage import STAGE, answer, is_judging

pytestmark = pytest.mark.database


@pytest.fixture
def working(working, configure):
    configure(STAGE)
    return working


def scores_of(user: str) -> dict[str, int]:
    rows = Score.objects.filter(user_id=identity.derive(user))
    return {f"{row.judge}.{row.criterion}": row.value for row in rows}


def tasks_of(user: str) -> list[Task]:
    rows = Task.objects.filter(user_id=identity.derive(user), kind="judge")
    return list(rows.order_by("created_at"))


def closed(working, user: str) -> Task:
    (task,) = tasks_of(user)
    working.kick()
    return working.closed(task)


def test_a_reply_is_judged(working, fake, client, user):
    fake.default = lambda request: Answer(
        [answer(accuracy=9, tone=7) if is_judging(request) else "Paris."]
    )
    completion = ask(client, user, "The capital?", agent="judged")
    task = closed(working, user)
    assert (task.state, task.error) == ("done", "")
    assert scores_of(user) == {"quality.accuracy": 9, "quality.tone": 7}
    row = Score.objects.get(user_id=identity.derive(user), criterion="tone")
    assert f"chatcmpl-{row.turn_id.hex}" == completion.id
    assert row.reasoning == "Because of tone."
    assert (row.agent, row.experiment, row.origin) == ("judged", "", "chat")
