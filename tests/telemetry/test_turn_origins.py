"""What began a turn, and which experiment chose who answered."""

import uuid

import pytest

from core.ids import UserId
from telemetry.presentation import terminal, turn_serializers
from telemetry.storage import turn_store
from tests.telemetry.sample_turns import make_record, model_call, store_turn

pytestmark = pytest.mark.database


@pytest.fixture
def owner(database) -> UserId:
    return UserId(uuid.uuid4())


def test_origin_and_experiment_are_stored(owner):
    kept = store_turn(model_call(), user_id=owner, experiment="helper", origin="task")
    plain = store_turn(model_call(), user_id=owner)
    for each in (kept, plain):
        found = turn_store.load_record(each.turn_id)
        assert (found.experiment, found.origin) == (each.experiment, each.origin)
    listed, _ = turn_store.page_turns(user_id=owner, experiment="helper")
    assert [turn.turn_id for turn in listed] == [kept.turn_id]


def test_users_see_their_turns_and_no_shadow_runs(owner):
    made = {
        origin: store_turn(user_id=owner, origin=origin).turn_id
        for origin in ("chat", "task", "smoke", "shadow")
    }
    seen = {origin for origin in made if turn_store.load_record(made[origin], owner)}
    assert seen == {"chat", "task"}
    listed, _ = turn_store.page_turns(user_id=owner, origins=turn_store.USER_ORIGINS)
    assert {turn.turn_id for turn in listed} == {made["chat"], made["task"]}
    assert turn_store.load_record(made["shadow"]) is not None


def test_variant_is_shown_with_its_experiment():
    told = turn_serializers.serialize_summary(make_record(experiment="helper"))
    assert (told["agent"], told["experiment"], told["variant"]) == (
        *("assistant", "helper", "assistant"),
    )
    assert turn_serializers.serialize_summary(make_record())["variant"] is None
    line = next(terminal.turn_tree(make_record(experiment="helper", origin="shadow")))
    assert "assistant of helper [shadow]" in line
    assert "  assistant  ok" in next(terminal.turn_tree(make_record()))
