"""Responses match the schemas of their views."""

import pytest

from access.schemas import StudioToken
from access.tokens import api_tokens as access_tokens
from access.users import identity
from admin_base.serializers import page_schema
from memory.admin.schemas import FactListOrSearchResults
from memory.admin.user_schemas import (
    ErasedUser,
    ErasurePreview,
    ListedUser,
    StudioThread,
)
from memory.api.schemas import FactWithHistory, MemoryObject, SavedMemory
from studio.admin import JudgedTurn, RatedUser
from studio.conversations.schemas import ScoreList, ThreadMessageList
from studio.live import views
from studio.monitoring import home, spend
from tasks.schemas import StudioListedTask
from telemetry.schemas import StudioListedTurn
from tests.access.actors import ADA
from tests.gateway.memory_client import CONFIG_WITH_MEMORY, ok
from tests.memory.facts.saving import save
from tests.memory.user_data import sample_user
from tests.studio.openapi.schema_assertions import assert_fits
from tests.telemetry.sample_turns import nested_calls, store_turn
from triggers.schemas import TriggerList

pytestmark = pytest.mark.database

TURN_LIST = page_schema(StudioListedTurn)


@pytest.fixture
def alice(configure, running, user):
    configure(CONFIG_WITH_MEMORY)
    user_id = identity.derive_user_id(user)
    sample_user.store_user_data(user_id)
    store_turn(user_id=user_id, outcome="error", error="It broke", origin="shadow")
    turn = store_turn(*nested_calls(), user_id=user_id)
    sample_user.store_conversation(user_id, "plums", thread="another")
    sample_user.store_scores(user_id, turn.turn_id, "plums")
    return user_id


@pytest.mark.parametrize(
    ("path", "schema"),
    [
        ("", RatedUser),
        ("/erase", ErasurePreview),
        ("/facts?status=all", page_schema(MemoryObject)),
        ("/messages?thread=", ThreadMessageList),
        ("/scores", ScoreList),
        ("/threads", page_schema(StudioThread)),
        ("/turns", TURN_LIST),
    ],
)
def test_user_responses_match_their_schemas(script, alice, path, schema):
    data = ok(script.get(f"/admin/users/{alice}{path}"))
    assert_fits(schema, data)
    assert data.get("data", True)


def test_list_responses_match_their_schemas(script, alice):
    assert_fits(page_schema(ListedUser), ok(script.get("/admin/users")))
    assert_fits(TURN_LIST, ok(script.get("/admin/turns")))


@pytest.mark.parametrize(
    ("path", "schema"),
    [
        ("", home.HomeDay),
        ("live", views.LiveState),
        ("spend?since=2020-01-01", spend.Spending),
        ("tasks", page_schema(StudioListedTask)),
        ("tokens", page_schema(StudioToken)),
        ("triggers", TriggerList),
    ],
)
def test_server_responses_match_their_schemas(script, alice, path, schema):
    access_tokens.create_token(
        f"{alice}", f"{alice}", by=ADA, budget="total", limit_micro_usd=5
    )
    assert_fits(schema, ok(script.get(f"/admin/{path}")))


def test_turn_and_fact_responses_match_their_schemas(script, alice):
    (turn, *_) = ok(script.get(f"/admin/users/{alice}/turns"))["data"]
    assert_fits(JudgedTurn, ok(script.get(f"/admin/turns/{turn['id']}")))
    path = f"/admin/users/{alice}/facts"
    name = f"mem_{save(alice, 'Likes figs').fact_id.hex}"
    assert_fits(FactWithHistory, ok(script.get(f"{path}/{name}")))
    assert_fits(
        SavedMemory, ok(script.post(path, json={"content": "Likes pears"}), 201)
    )
    found = ok(script.get(path, params={"q": "figs and plums", "in": "all"}))
    FactListOrSearchResults.model_validate(found)
    assert_fits(ErasedUser, ok(script.delete(f"/admin/users/{alice}")))
