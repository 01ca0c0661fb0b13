"""The origin of a turn, and its experiment."""

import uuid

import pytest

from core.ids import UserId
from telemetry.models import Turn
from telemetry.presentation import terminal
from telemetry.schemas import TurnSummary
from telemetry.storage import turn_store
from tests.telemetry.sample_turns import make_record, model_call, store_turn

pytestmark = pytest.mark.database


@pytest.fixture
def owner(database) -> UserId:
    return UserId(uuid.uuid4())


def test_origin_and_experiment_are_stored(owner):
    stored = store_turn(model_call(), user_id=owner, experiment="helper", origin="task")
    plain = store_turn(model_call(), user_id=owner)
    for each in (stored, plain):
        found = turn_store.load_record(each.turn_id)
        assert (found.experiment or "", found.origin) == (each.experiment, each.origin)
    listed = Turn.objects.filter(user_id=owner, experiment="helper")
    assert [turn.turn_id for turn in listed] == [stored.turn_id]


def test_users_see_their_turns_and_no_shadow_runs(owner):
    turn_ids = {
        origin: store_turn(user_id=owner, origin=origin).turn_id
        for origin in ("chat", "task", "smoke", "shadow")
    }
    visible = {
        origin for origin in turn_ids if turn_store.load_record(turn_ids[origin], owner)
    }
    assert visible == {"chat", "task"}
    listed = Turn.objects.filter(user_id=owner).started_by_users()
    assert {turn.turn_id for turn in listed} == {turn_ids["chat"], turn_ids["task"]}
    assert turn_store.load_record(turn_ids["shadow"]) is not None


def test_variant_is_shown_with_its_experiment():
    result = TurnSummary.serialize(make_record(experiment="helper"))
    assert (result["agent"], result["experiment"], result["variant"]) == (
        "assistant",
        "helper",
        "assistant",
    )
    assert TurnSummary.serialize(make_record())["variant"] is None
    line = next(terminal.turn_tree(make_record(experiment="helper", origin="shadow")))
    assert "assistant of helper [shadow]" in line
    assert "  assistant  ok" in next(terminal.turn_tree(make_record()))
