"""`/v1/turns`: users see their own turns only."""

import uuid
from datetime import timedelta

import pytest

from access.users import identity
from telemetry.api import TurnsQuery
from telemetry.schemas import StudioTurn, TurnList, TurnObject
from tests.conftest import CONFIG
from tests.docs.pages import CODE, names_in_table, table_rows
from tests.gateway.calls import ask
from tests.gateway.memory.test_api_docs import default_of, field_names
from tests.gateway.memory_client import MemoryClient
from tests.telemetry.sample_turns import (
    NOON,
    SECOND,
    nested_calls,
    store_turn,
    tool_call,
)

pytestmark = [pytest.mark.database, pytest.mark.usefixtures("shown")]

TURNS = "/v1/turns"


@pytest.fixture
def shown(server, configure) -> None:
    """Let users see the calls of their turns."""
    configure(CONFIG + "\ntelemetry: {sqlite: {show_to_users: true}}\n")


def store_turn_of(memory_client: MemoryClient, *calls, **fields):
    """Store a turn of a client's user."""
    return store_turn(
        *calls, user_id=identity.derive_user_id(memory_client.user), **fields
    )


# A single turn.


def test_turn_includes_all_its_calls(memory_client):
    turn = store_turn_of(memory_client, *nested_calls(), thread="trip")
    result = memory_client.get(f"{TURNS}/{turn.turn_id}")
    assert result == StudioTurn.serialize(turn)
    assert list(result)[:3] == ["id", "object", "completion_id"]
    assert result["calls"][2]["calls"][1]["calls"][0]["error"] == "429"
    TurnObject.model_validate(result)


def test_turn_accepts_all_forms_of_its_id(memory_client):
    turn = store_turn_of(memory_client)
    for name in (turn.turn_id.hex, str(turn.turn_id).upper(), completion(turn)):
        assert memory_client.get(f"{TURNS}/{name}")["id"] == str(turn.turn_id)


def completion(turn) -> str:
    return f"chatcmpl-{turn.turn_id.hex}"


def test_turn_of_another_user_is_answered_as_unknown(memory_client, other_client):
    turn = store_turn_of(memory_client)
    message = other_client.refused("GET", f"{TURNS}/{turn.turn_id}", 404)
    assert message == memory_client.refused("GET", f"{TURNS}/{uuid.uuid4()}", 404)
    assert message["code"] == "turn_not_found"


@pytest.mark.parametrize("name", ["x", "0" * 33, "chatcmpl-", "%01", "\u0661" * 32])
def test_invalid_turn_id_is_404(memory_client, name):
    assert (
        memory_client.refused("GET", f"{TURNS}/{name}", 404)["code"] == "turn_not_found"
    )


def test_turn_is_found_by_completion_id(client, fake, user, memory_client):
    answer = ask(client, memory_client.user, "What is the weather?")
    result = memory_client.get(f"{TURNS}/{answer.id}")
    assert result["completion_id"] == answer.id
    assert result["user_message"] == "What is the weather?"
    assert (result["outcome"], result["finish_reason"]) == ("ok", "stop")
    [call] = result["calls"]
    assert call["usage"] == result["usage"]
    assert result["usage"]["output_tokens"] == answer.usage.completion_tokens


def test_turns_are_found_by_request_id(client, memory_client, other_client):
    first = ask(client, memory_client.user)
    again = [
        store_turn_of(who, request_id="mine-1")
        for who in (memory_client, memory_client, other_client)
    ]
    [result] = memory_client.get(TURNS, request_id=first._request_id)["data"]
    assert result["completion_id"] == first.id
    assert result["request_id"] == first._request_id
    result = memory_client.get(TURNS, request_id="mine-1")["data"]
    assert {turn["id"] for turn in result} == {str(turn.turn_id) for turn in again[:2]}


# The list.


def test_list_is_ordered_newest_first(memory_client, other_client):
    first = store_turn_of(memory_client, *nested_calls())
    second = store_turn_of(memory_client, tool_call(), started_at=NOON + SECOND)
    store_turn_of(other_client)
    result = memory_client.get(TURNS)
    assert [turn["id"] for turn in result["data"]] == [
        str(second.turn_id),
        str(first.turn_id),
    ]
    assert (result["first_id"], result["last_id"]) == (
        str(second.turn_id),
        str(first.turn_id),
    )
    assert result["has_more"] is False
    assert [(t["model_calls"], t["tool_calls"]) for t in result["data"]] == [
        (0, 1),
        (5, 5),
    ]
    assert "calls" not in result["data"][0]
    TurnList.model_validate(result)


def test_list_is_empty_without_turns(memory_client):
    assert memory_client.get(TURNS) == {
        "object": "list",
        "data": [],
        "has_more": False,
        "first_id": None,
        "last_id": None,
    }


def test_list_pages_are_contiguous(memory_client):
    turns = {str(store_turn_of(memory_client).turn_id) for _ in range(5)}
    seen, after, has_more = [], None, True
    while has_more:
        page = memory_client.get(TURNS, limit=2, after=after)
        seen += [turn["id"] for turn in page["data"]]
        after, has_more = page["last_id"], page["has_more"]
    assert seen == sorted(turns, reverse=True)


def test_page_may_start_after_a_completion_id(memory_client):
    first, second = (
        store_turn_of(memory_client),
        store_turn_of(memory_client, started_at=NOON + SECOND),
    )
    [result] = memory_client.get(TURNS, after=completion(second))["data"]
    assert result["id"] == str(first.turn_id)


def test_list_can_be_filtered(memory_client):
    store_turn_of(memory_client)
    failed = store_turn_of(memory_client, outcome="error", agent="writer")
    later = store_turn_of(memory_client, started_at=NOON + SECOND)
    since = (NOON + SECOND).astimezone().isoformat()
    for requested, expected in (
        ({"outcome": "error"}, failed),
        ({"agent": "writer"}, failed),
        ({"since": since}, later),
    ):
        [result] = memory_client.get(TURNS, **requested)["data"]
        assert result["id"] == str(expected.turn_id)
    future = (NOON + timedelta(days=99_999)).isoformat()
    assert memory_client.get(TURNS, since=future)["data"] == []


@pytest.mark.parametrize(
    ("requested", "param"),
    [
        ({"limit": 0}, "limit"),
        ({"limit": 101}, "limit"),
        ({"outcome": "fine"}, "outcome"),
        ({"since": "yesterday"}, "since"),
        ({"since": "2026-05-06T12:00:00"}, "since"),
        ({"after": "x"}, "after"),
        ({"after": str(uuid.uuid4())}, "after"),
        ({"status": "x"}, "status"),
    ],
)
def test_invalid_list_parameter_is_refused(memory_client, requested, param):
    assert memory_client.refused("GET", TURNS, **requested)["param"] == param


def test_page_cannot_start_after_another_users_turn(memory_client, other_client):
    foreign = store_turn_of(other_client)
    refused = memory_client.refused("GET", TURNS, after=str(foreign.turn_id))
    assert refused["param"] == "after"


def test_any_agent_name_is_accepted_as_filter(memory_client):
    for agent in ("x" * 5000, "ünï", "'; --"):
        assert memory_client.get(TURNS, agent=agent)["data"] == []


# The documentation.


def test_list_parameters_are_documented():
    heading = "parameter of the list of turns"
    assert names_in_table("telemetry.md", heading) == field_names(TurnsQuery)
    for first, default, *_ in table_rows("telemetry.md", heading):
        for name in CODE.findall(first):
            field = TurnsQuery.model_fields[name]
            assert default.split("`")[1:2] == default_of(field).split("`")[1:2], name


def test_openapi_describes_turns(memory_client):
    described = memory_client.client.get("/v1/openapi.json").json()
    listing = described["paths"]["/v1/turns"]["get"]
    assert {parameter["name"] for parameter in listing["parameters"]} == {
        *field_names(TurnsQuery),
        "X-Coulisse-User",
    }
    reference = listing["responses"]["200"]["content"]["application/json"]["schema"]
    assert reference["$ref"].endswith("TurnList")
    assert "/v1/turns/{turn_id}" in described["paths"]
