"""Secrets of the configuration are redacted on all pages."""

import pytest
from django.utils import timezone

from access.users.identity import derive_user_id
from judges.models import Score
from memory.models import Fact
from studio.operations import tables
from tasks.models import Task
from tests.memory.user_data import sample_user

pytestmark = pytest.mark.database

SECRET = "sk-openai-q7Vd2mXw9Lr4TzK8bNf3HcYs"


@pytest.fixture
def alice(server, user):
    """A user whose every text has the secret."""
    user_id = derive_user_id(user)
    sample_user.store_user_data(user_id, SECRET)
    # Of judges nothing is stored with it, and of tasks this is what came of one.
    Score.objects.filter(user_id=user_id).update(reasoning="")
    Task.objects.filter(user_id=user_id).update(
        state="done",
        result=SECRET,
        error=SECRET,
        payload={"metadata": {"k": SECRET}},
        finished_at=timezone.now(),  # The newest, which Live shows.
    )
    yield user_id
    Task.objects.filter(user_id=user_id).delete()


def with_secret(responses):
    return sorted({path for path, response in responses if SECRET in response.text})


def test_secrets_in_tasks_and_feedback_are_redacted(script, browser, alice):
    task = Task.objects.exclude(kind="extraction").get(user_id=alice)
    seen = [
        (path, client.get(path))
        for path in (
            f"/admin/feedback?user={alice}",
            "/admin/live",
            f"/admin/tasks?user={alice}",
            f"/admin/tasks/{task.pk}",
        )
        for client in (script, browser)
    ]
    assert with_secret(seen) == []
    assert [path for path, response in seen if "[redacted]" not in response.text] == []


@pytest.mark.parametrize(
    "model", tables.LIST_COLUMNS, ids=lambda model: model._meta.label
)
def test_secrets_in_table_rows_are_redacted(browser, alice, model):
    place = f"/admin/tables/{model._meta.app_label}/{model._meta.model_name}"
    rows = model.objects.order_by("-pk")
    if "user_id" in {field.attname for field in model._meta.fields}:
        rows = rows.filter(user_id=alice)
    places = [place, *(f"{place}/{row.pk}" for row in rows[:3])]
    seen = [(path, browser.get(path)) for path in places]
    assert {response.status_code for _, response in seen} == {200}
    assert with_secret(seen) == []
    if model is Fact:
        assert "[redacted]" in seen[1][1].text
