"""The references and the activity on the pages of agents."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from config import live
from studio.configuration import agent_details
from tests.studio.configuration.entries.entry_requests import (
    NEW_AGENT,
    post,
)

pytestmark = pytest.mark.database


def test_agent_references_are_listed(server):
    found = agent_details.find_references(live.current(), "tuned")
    assert [tuple(each.model_dump().values()) for each in found] == [
        ("agent", "team", "calls it"),
        ("experiment", "trial", "a variant"),
        ("smoke test", "greeting", "tests it"),
    ]
    first = next(agent_details.find_references(live.current(), "forgetful"))
    assert first.relation == "falls back to it"


def test_agent_page_shows_last_24_hours(script, client, fake):
    fake.reply("hello")
    client.chat.completions.create(
        model="team", user="u", messages=[{"role": "user", "content": "hi"}]
    )
    day = script.get("/admin/agents/team").json()["details"]["last_day"]
    assert (day["turns"] >= 1, day["failed"]) == (True, 0)
    assert day["p50_seconds"] > 0
    listed = {e["name"]: e for e in script.get("/admin/agents").json()["data"]}
    assert listed["team"]["overview"]["last_day"] == day


def queries(function):
    with CaptureQueriesContext(
        connection,
    ) as captured:
        function()
    return len(captured)


def test_query_count_is_independent_of_amount(script):
    few = (
        queries(agent_details.load_overview),
        queries(lambda: agent_details.load_details("tuned", None)),
    )
    for number in range(3):
        post(script, "agents", NEW_AGENT.replace("bob", f"bob-{number}"))
    assert (
        queries(agent_details.load_overview),
        queries(lambda: agent_details.load_details("tuned", None)),
    ) == few
    assert few == (2, 2)
