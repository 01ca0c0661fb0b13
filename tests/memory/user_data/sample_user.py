"""A sample user with rows in every table of user data."""

import uuid
from datetime import UTC, datetime
from typing import Any

import numpy as np
from django.apps import apps
from django.db import connection, models

from core.ids import UserId, new_turn_id
from core.messages import Message, ToolCall
from files.models import File
from judges.models import Feedback, Score
from judges.scoring.verdict_parser import JudgeResult
from mcp_bridge.models import McpToken
from memory.extraction import extraction_tasks
from memory.extraction.extraction_tasks import ExtractionRequest, TurnRange
from memory.models import (
    AgentState,
    ConsolidationRun,
    Fact,
    FactChange,
    FactMessage,
    Owner,
    Passage,
    PendingErasure,
    PendingForgetting,
    Session,
    StoredCompletion,
    Summary,
    Thread,
)
from memory.models import StoredMessage as MessageRow
from memory.models.fields import write_vector
from memory.transcript import message_store
from memory.transcript.message_rows import NewMessage
from safety.models import Incident
from smoke.models import SmokeMessage, SmokeRun
from tasks.models import CallReceipt, Task
from tasks.queue.task_spec import TaskSpec
from tests.telemetry.sample_turns import model_call, store_turn, tool_call

AT = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
HASH = "hash:2"


def store_user_data(user_id: UserId, secret: str = "plums") -> None:
    """Store rows in every table of user data; their texts contain the secret."""
    Owner.objects.create(user_id=user_id, time_zone="Europe/Lisbon", created_at=AT)
    store_conversation(user_id, secret)
    store_conversation(user_id, secret, thread=f"about {secret}")
    thread = Thread.objects.get(user_id=user_id, name="")
    new = store_fact(user_id, f"Likes {secret} very much")
    old = store_fact(user_id, f"Likes {secret}", status="superseded", superseded_by=new)
    store_passage(user_id, fact=new)
    message = thread.messages.get(position=0)
    store_passage(user_id, message=message, thread=thread, position=0)
    FactMessage.objects.create(fact=new, message=message)
    StoredCompletion.objects.create(
        message=message, user_id=user_id, metadata={"topic": secret}
    )
    turn = TurnRange(user_id, thread.pk, message.turn_id, 0, 2)
    extraction_tasks.enqueue(turn, ExtractionRequest("assistant"), AT)
    Task.objects.extractions().filter(user_id=user_id).update(
        result=extraction_tasks.failure_result(secret)
    )
    Summary.objects.create(
        user_id=user_id,
        thread=thread,
        first_position=0,
        end_position=2,
        text=f"They spoke of {secret}.",
        tokens=5,
        model="small",
        run=ConsolidationRun.objects.create(started_at=AT),
        created_at=AT,
    )
    Incident.objects.create(
        at=AT,
        check_name="words",
        level="flagged",
        severity=1,
        stage="before",
        agent="assistant",
        excerpt=secret,
        user_id=user_id,
        turn_id=message.turn_id,
    )
    PendingErasure.objects.create(
        user_id=user_id, confirmation_digest="", expires_at=AT
    )
    Session.objects.create(
        user_id=user_id,
        thread=thread,
        first_position=0,
        end_position=2,
        started_at=AT,
        ended_at=AT,
        reason="request",
        closed_at=AT,
        episode=old,
        score=4,
        comment=secret,
    )
    PendingForgetting.objects.store_question(
        user_id, thread.name, new_turn_id(), [], AT
    )
    AgentState.objects.change(thread.pk, "coach", lambda _: {"note": secret}, AT)
    search = tool_call("search", model_call(), arguments=secret, result=secret)
    store_turn(
        model_call(), search, user_id=user_id, user_message=secret, started_at=AT
    )
    store_sign_in(user_id, secret)
    File.objects.create(
        user_id=user_id,
        filename=f"{secret}.txt",
        purpose="user_data",
        content_type="text/plain",
        size=5,
        sha256="0" * 64,
        text=secret,
        created_at=AT,
    )
    Task.objects.enqueue([TaskSpec("agent", user_id, "assistant", secret)])
    CallReceipt.objects.create(user_id=user_id, key=uuid.uuid4().hex, begun_at=AT)
    store_smoke_run(user_id, secret)
    store_scores(user_id, message.turn_id, secret)
    assert old.pk != new.pk


def store_scores(user_id: UserId, turn_id: uuid.UUID, secret: str) -> None:
    """Store a judge's score and the user's feedback on a reply."""
    Score.objects.store(
        {"tone": JudgeResult(7, f"It is kind about {secret}.")},
        turn_id=turn_id,
        user_id=user_id,
        judge="quality",
        agent="assistant",
    )
    Feedback.objects.create(
        user_id=user_id,
        turn_id=turn_id,
        thumb="up",
        comment=secret,
        agent="assistant",
        created_at=AT,
        updated_at=AT,
    )


PERSONA = {"provider": "openai", "model": "gpt-test", "preamble": "Ask about plums."}


def store_smoke_run(user_id: UserId, secret: str) -> None:
    """Store a run of a smoke test whose synthetic user this is."""
    run = SmokeRun.objects.create(
        batch=user_id,
        repetition=1,
        test="plums",
        target="assistant",
        user_id=user_id,
        origin="command",
        # Other tests of this worker read the run through the studio.
        settings={"name": "plums", "target": "assistant", "persona": PERSONA},
        state=SmokeRun.State.DONE,
        created_at=AT,
    )
    SmokeMessage.objects.create(
        run=run, position=0, speaker="persona", text=secret, seconds=1, sent_at=AT
    )


def store_sign_in(user_id: UserId, secret: str) -> None:
    """Store a sign-in to an MCP server, whose tokens are the secret."""
    McpToken.objects.create(
        user_id=user_id,
        server="notes",
        resource="https://notes.example/mcp",
        key_id="key",
        access_token=secret.encode(),
        refresh_token=secret.encode(),
        scopes="read write",
        created_at=AT,
        updated_at=AT,
    )


def store_conversation(
    user_id: UserId, text: str, *, thread: str = "", turns: int = 1
) -> None:
    """Store turns, each with a call of a tool."""
    for turn in range(turns):
        call = ToolCall(f"call_{turn}", "look", f'{{"for": "{text}"}}')
        messages = [
            Message("user", f"{text} {turn}?"),
            Message("assistant", None, tool_calls=(call,)),
            Message("tool", f"{text} found", tool_call_id=call.id),
            Message("assistant", f"{text} {turn}!"),
        ]
        entries = [NewMessage(message, 5, agent="assistant") for message in messages]
        message_store.append_turn(user_id, thread, new_turn_id(), entries)


def store_fact(user_id: UserId, content: str, **fields: Any) -> Fact:
    """Store a fact and its history."""
    fact = Fact.objects.create(
        user_id=user_id,
        content=content,
        source="extraction",
        quote=content,
        message=MessageRow.objects.filter(thread__user_id=user_id).first(),
        **{"said_at": AT, "created_at": AT, "updated_at": AT, **fields},
    )
    after = {"content": content}
    change = {"action": "created", "by": "extraction", "at": AT, "after": after}
    FactChange.objects.create(fact=fact, user_id=user_id, **change)
    return fact


def store_passage(user_id: UserId, **links: Any) -> None:
    """Store a passage with plain SQL; the ORM cannot."""
    values = {
        "user_id": _value(Passage, "user_id", user_id),
        "is_question": False,
        "embedder": HASH,
        "dimensions": 2,
        "embedding_error": "",
        "vector": write_vector(np.array([0.6, 0.8]), connection.vendor),
        "terms": "'plum':1" if connection.vendor == "postgresql" else b"plum",
        "position": links.pop("position", None),
        **{f"{name}_id": _value(Passage, name, row) for name, row in links.items()},
    }
    columns, marks = ", ".join(values), ", ".join(["%s"] * len(values))
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO memory_passage ({columns}) VALUES ({marks})",
            [*values.values()],
        )


def _value(model: type[models.Model], name: str, value: Any) -> Any:
    value = value.pk if isinstance(value, models.Model) else value
    return model._meta.get_field(name).get_db_prep_value(value, connection)


def count_rows(user_id: UserId) -> dict[str, int]:
    """Count a user's rows in every table with a path to a user."""
    return {
        model._meta.label: model._base_manager.filter(
            **{"__".join([*path, "user_id"]): user_id}
        ).count()
        for model in apps.get_models()
        for path in _paths(model, [])
    }


def _paths(model: type[models.Model], before: list[str]) -> list[list[str]]:
    """Return the path from a table to a user's id, if any."""
    if any(field.name == "user_id" for field in model._meta.fields):
        return [before]
    ways = (
        _paths(field.related_model, [*before, field.name])
        for field in model._meta.fields
        if field.is_relation and field.related_model is not model and len(before) < 4
    )
    return next(filter(None, ways), [])
