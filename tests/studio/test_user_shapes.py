"""Answers about users are what the studio's description says they are."""

import pytest

from access import identity
from gateway.memory_schemas import SavedMemory
from studio import facts, one_fact, turns
from studio import user_shapes as shapes
from tests.gateway.hands import CONFIG_WITH_MEMORY, ok
from tests.memory import lives
from tests.memory.saving import save
from tests.telemetry.turns import deep, put

pytestmark = pytest.mark.database


@pytest.fixture
def alice(configure, running, user):
    configure(CONFIG_WITH_MEMORY)
    user_id = identity.derive(user)
    lives.live(user_id)
    put(user_id=user_id, outcome="error", error="It broke", origin="shadow")
    turn = put(*deep(), user_id=user_id)
    lives.talk(user_id, "plums", thread="another")
    lives.appraise(user_id, turn.turn_id, "plums")
    return user_id


def fits(shape, told):
    """Check that an answer has a shape, with all of its fields and no others."""
    read = shape.model_validate(told).model_dump(mode="json", by_alias=True)
    _compare(told, read)


def _compare(told, read):
    if isinstance(told, dict):
        assert told.keys() <= read.keys(), told.keys() - read.keys()
        for name in told:
            _compare(told[name], read[name])
    elif isinstance(told, list):
        for one, other in zip(told, read, strict=True):
            _compare(one, other)


@pytest.mark.parametrize(
    ("path", "shape"),
    [
        ("", shapes.User),
        ("/erase", shapes.Erasable),
        ("/facts?status=all", facts.FactList),
        ("/messages?thread=", shapes.MessageList),
        ("/scores", shapes.ScoreList),
        ("/threads", shapes.ThreadList),
        ("/turns", turns.TurnList),
    ],
)
def test_of_one_user(script, alice, path, shape):
    told = ok(script.get(f"/admin/users/{alice}{path}"))
    fits(shape, told)
    assert told.get("data", True)


def test_of_all(script, alice):
    fits(shapes.UserList, ok(script.get("/admin/users")))
    fits(turns.TurnList, ok(script.get("/admin/turns")))


def test_of_a_turn_and_a_fact(script, alice):
    (turn, *_) = ok(script.get(f"/admin/users/{alice}/turns"))["data"]
    fits(turns.JudgedTurn, ok(script.get(f"/admin/turns/{turn['id']}")))
    path = f"/admin/users/{alice}/facts"
    name = f"mem_{save(alice, 'Likes figs').fact_id.hex}"
    fits(one_fact.FactWithHistory, ok(script.get(f"{path}/{name}")))
    fits(SavedMemory, ok(script.post(path, json={"content": "Likes pears"}), 201))
    found = ok(script.get(path, params={"q": "figs and plums", "in": "all"}))
    facts.FactsOrFound.model_validate(found)
    fits(shapes.Erased, ok(script.delete(f"/admin/users/{alice}")))
