"""Responses match the schemas of their views."""

import pytest

from access.tokens import api_tokens as access_tokens
from access.users import identity
from memory.api.schemas import SavedMemory
from studio.live import views
from studio.monitoring import home, spend, turn_views
from studio.operations import api_tokens, background_tasks, trigger_views
from studio.user_pages import fact_detail, fact_list, schemas
from tests.access.actors import ADA
from tests.gateway.memory_client import CONFIG_WITH_MEMORY, ok
from tests.memory.facts.saving import save
from tests.memory.user_data import sample_user
from tests.studio.openapi.schema_assertions import assert_fits
from tests.telemetry.sample_turns import nested_calls, store_turn

pytestmark = pytest.mark.database


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
        ("", schemas.UserSummary),
        ("/erase", schemas.ErasurePreview),
        ("/facts?status=all", fact_list.FactList),
        ("/messages?thread=", schemas.ThreadMessageList),
        ("/scores", schemas.ScoreList),
        ("/threads", schemas.UserThreadList),
        ("/turns", turn_views.StudioTurnList),
    ],
)
def test_user_responses_match_their_schemas(script, alice, path, schema):
    data = ok(script.get(f"/admin/users/{alice}{path}"))
    assert_fits(schema, data)
    assert data.get("data", True)


def test_list_responses_match_their_schemas(script, alice):
    assert_fits(schemas.UserList, ok(script.get("/admin/users")))
    assert_fits(turn_views.StudioTurnList, ok(script.get("/admin/turns")))


@pytest.mark.parametrize(
    ("path", "schema"),
    [
        ("", home.HomeDay),
        ("live", views.LiveState),
        ("spend?since=2020-01-01", spend.Spending),
        ("tasks", background_tasks.StudioTaskList),
        ("tokens", api_tokens.StudioTokenList),
        ("triggers", trigger_views.TriggerList),
    ],
)
def test_server_responses_match_their_schemas(script, alice, path, schema):
    access_tokens.create_token(
        f"{alice}", f"{alice}", by=ADA, budget="total", limit_micro_usd=5
    )
    assert_fits(schema, ok(script.get(f"/admin/{path}")))


def test_turn_and_fact_responses_match_their_schemas(script, alice):
    (turn, *_) = ok(script.get(f"/admin/users/{alice}/turns"))["data"]
    assert_fits(turn_views.JudgedTurn, ok(script.get(f"/admin/turns/{turn['id']}")))
    path = f"/admin/users/{alice}/facts"
    name = f"mem_{save(alice, 'Likes figs').fact_id.hex}"
    assert_fits(fact_detail.FactWithHistory, ok(script.get(f"{path}/{name}")))
    assert_fits(
        SavedMemory, ok(script.post(path, json={"content": "Likes pears"}), 201)
    )
    found = ok(script.get(path, params={"q": "figs and plums", "in": "all"}))
    fact_list.FactListOrSearchResults.model_validate(found)
    assert_fits(schemas.ErasedUser, ok(script.delete(f"/admin/users/{alice}")))
