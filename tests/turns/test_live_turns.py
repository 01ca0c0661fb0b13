"""Running turns are registered for the live view."""

import uuid

import pytest

from telemetry.live_turns import running_turn_serializer
from telemetry.live_turns.active_turns import ACTIVE_TURNS

pytestmark = pytest.mark.database


def ask(client, user, model="assistant", **more):
    return client.chat.completions.create(
        model=model,
        messages=[{"role": "user", "content": "What is new?"}],
        safety_identifier=user,
        **more,
    )


def record_snapshots(fake):
    """Return a list that receives the running turns at each provider request."""
    snapshots = []
    answer = fake.default

    def take_snapshot(request):
        snapshots.append(
            [
                running_turn_serializer.serialize_turn(turn)
                for turn in ACTIVE_TURNS.list_turns()
            ]
        )
        return answer

    fake.default = take_snapshot
    return snapshots


def test_running_turn_is_listed(client, fake, user):
    snapshots = record_snapshots(fake)
    ACTIVE_TURNS.take_changes()
    completion = ask(client, user)
    ((turn,),) = snapshots
    assert (turn["agent"], turn["user_message"]) == ("assistant", "What is new?")
    assert turn["current_step"]["kind"] == "model"
    assert turn["current_step"]["names"] == ["gpt-test"]
    assert completion.id == f"chatcmpl-{uuid.UUID(turn['id']).hex}"
    assert ACTIVE_TURNS.count() == 0
    assert ACTIVE_TURNS.take_changes().has_ended_turns


def test_incognito_turn_is_not_listed(client, fake, user):
    snapshots = record_snapshots(fake)
    ACTIVE_TURNS.take_changes()
    ask(client, user, metadata={"memory": "incognito"})
    assert snapshots == [[]]
    assert not ACTIVE_TURNS.take_changes().has_ended_turns


def test_failed_turn_is_unregistered(client, fake, user):
    snapshots = record_snapshots(fake)
    fake.fail(400)
    with pytest.raises(Exception, match="400"):
        ask(client, user)
    assert snapshots == []
    assert ACTIVE_TURNS.count() == 0
