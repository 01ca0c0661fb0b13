"""The list of turns, and the trace of a turn."""

import uuid

import pytest

from access.tokens import api_tokens
from core.ids import UserId
from core.trace import Attempt
from judges.models import Score
from judges.scoring.verdict_parser import JudgeResult
from memory.extraction import extraction_tasks
from memory.facts import fact_store, forgetting, public_ids
from memory.facts.types import FactDraft
from tasks.models import EXTRACTION, Task
from tasks.queue.task_spec import TaskSpec
from telemetry.types import Diagnostics
from tests.access.actors import ADA
from tests.gateway.calls import error
from tests.gateway.memory_client import ok
from tests.telemetry.sample_turns import (
    NOON,
    SECOND,
    model_call,
    nested_calls,
    store_turn,
    tool_call,
)

pytestmark = pytest.mark.database

UNKNOWN_TURN = "5f8b1c3e-7a52-4d0e-9b64-2c1f3e8a9d07"


def test_script_gets_the_tree_and_scores(script):
    turn = store_turn(*nested_calls(), cost_micro_usd=1500)
    Score.objects.store(
        {"tone": JudgeResult(3, "It is curt.")},
        turn_id=turn.turn_id,
        user_id=turn.user_id,
        judge="quality",
        agent="assistant",
    )
    data = ok(script.get(f"/admin/turns/{turn.turn_id}"))
    assert (data["id"], data["cost_usd"]) == (str(turn.turn_id), 0.0015)
    assert [call.get("name") for call in data["calls"]] == [
        None,
        "add",
        "ask_researcher",
        "slow",
        None,
    ]
    assert [score["value"] for score in data["scores"]] == [3]
    assert data["feedback"] is None


def test_page_links_the_token(browser):
    name = f"laptop-{uuid.uuid4().hex[:8]}"
    token, _ = api_tokens.create_token(name, name, by=ADA)
    turn = store_turn(token_id=token.pk)
    page = browser.get(f"/admin/turns/{turn.turn_id}").text
    assert f'<a href="/admin/tokens/{token.pk}">{name}</a>' in page


@pytest.mark.parametrize("written", ["{}", "chatcmpl-{}"])
def test_turn_is_found_by_completion_id(script, written):
    turn = store_turn()
    path = f"/admin/turns/{written.format(turn.turn_id.hex)}"
    assert ok(script.get(path))["id"] == str(turn.turn_id)


@pytest.mark.parametrize("text", [UNKNOWN_TURN, "plums"])
def test_unrecorded_turn_is_404(script, text):
    assert error(script.get(f"/admin/turns/{text}"), 404)["code"] == "turn_not_found"


def test_page_shows_every_level(browser):
    attempts = [Attempt("eu", 0.1, "HTTP 529"), Attempt("us", 0.2)]
    turn = store_turn(
        *nested_calls(),
        model_call(attempts=attempts),
        error="It broke",
        outcome="error",
    )
    page = browser.get(f"/admin/turns/{turn.turn_id}").text
    for text in (
        "ask_researcher",
        "ask_librarian",
        "the librarian failed",
        "429",
        "openai/gpt-test",
        "cancelled",
        "It broke",
        "HTTP 529",
        "64 from the cache",
    ):
        assert text in page
    assert page.count("<li>") >= 10


def test_page_shows_recalled_facts(script, browser):
    user_id, stranger = UserId(uuid.uuid4()), UserId(uuid.uuid4())
    tea, cake = save_facts(user_id, "likes tea", "bakes cakes")
    (secret,) = save_facts(stranger, "owes money")
    data = [public_ids.format_fact_id(each) for each in (cake, secret, tea)]
    turn = store_turn(user_id=user_id, recalled_fact_ids=data)
    forgetting.forget(user_id, cake, by="operator")
    shown = ok(script.get(f"/admin/turns/{turn.turn_id}"))
    assert shown["recalled"] == data
    assert [(each["content"], each["status"]) for each in shown["recalled_facts"]] == [
        ("bakes cakes", "deleted"),
        ("likes tea", "active"),
    ]
    page = browser.get(f"/admin/turns/{turn.turn_id}").text
    assert "3 facts" in page
    assert (
        f'href="/admin/users/{user_id}/facts/{public_ids.format_fact_id(tea)}"' in page
    )
    assert "now deleted" in page
    assert "Facts deleted since then are hidden." in page
    assert "owes money" not in page


@pytest.mark.parametrize("is_reversed", [False, True])
def test_recalled_facts_keep_their_order(script, is_reversed):
    user_id = UserId(uuid.uuid4())
    ids = sorted(save_facts(user_id, *"abcdef"), reverse=is_reversed)
    turn = store_turn(
        user_id=user_id,
        recalled_fact_ids=[public_ids.format_fact_id(each) for each in ids],
    )
    shown = ok(script.get(f"/admin/turns/{turn.turn_id}"))
    assert [each["id"] for each in shown["recalled_facts"]] == shown["recalled"]


def save_facts(user_id: UserId, *contents: str) -> list[uuid.UUID]:
    drafts = [FactDraft(content) for content in contents]
    saved = fact_store.save_drafts(user_id, drafts, [None] * len(drafts), by="user")
    return [each.fact_id for each in saved]


def test_fragment_contains_only_the_tree(browser):
    turn = store_turn(*nested_calls())
    part = browser.get(f"/admin/turns/{turn.turn_id}?fragment=1").text
    assert part.lstrip().startswith('<div class="tree">')
    assert "ask_librarian" in part
    assert "<html" not in part


def test_json_arguments_and_results_are_indented(browser):
    turn = store_turn(tool_call(arguments='{"a": {"b": [1]}}', result="not {json"))
    page = browser.get(f"/admin/turns/{turn.turn_id}").text
    assert "{\n  &quot;a&quot;: {\n" in page
    assert "not {json" in page


def test_turns_are_listed_and_filtered(script, browser):
    user_id = uuid.uuid4()
    for number in range(60):
        store_turn(
            user_id=user_id,
            started_at=NOON + number * SECOND,
            outcome="error" if number % 20 == 0 else "ok",
            error="It broke" if number % 20 == 0 else None,
        )
    path = f"/admin/users/{user_id}/turns"
    first = ok(script.get(path))
    assert (len(first["data"]), first["has_more"]) == (50, True)
    rest = ok(script.get(path, params={"after": first["last_id"]}))
    assert (len(rest["data"]), rest["has_more"]) == (10, False)
    failed = ok(script.get(path, params={"outcome": "error"}))["data"]
    assert [turn["error"] for turn in failed] == ["It broke"] * 3
    assert error(script.get(path, params={"outcome": "x"}), 400)["param"] == "outcome"
    everyone = ok(script.get("/admin/turns", params={"outcome": "error"}))["data"]
    assert {turn["outcome"] for turn in everyone} == {"error"}
    page = browser.get(f"/admin/turns?user={user_id}&outcome=error").text
    assert "It broke" in page


def test_page_shows_the_diagnostics_and_the_extraction(script, browser):
    turn = store_turn(
        diagnostics=Diagnostics(
            recall="words", corpus="small", facts=2, prepare_seconds=0.0042
        )
    )
    Task.objects.append(
        TaskSpec(EXTRACTION, turn.user_id, "assistant", turn_id=turn.turn_id),
        now=turn.started_at,
    )
    result = extraction_tasks.format_result(found=4, saved=3, held=1)
    Task.objects.filter(turn_id=turn.turn_id).update(state="done", result=result)
    address = f"/admin/turns/{turn.turn_id}"
    page = browser.get(address).text
    for text in ("Diagnostics", "by words, compared one by one", "2 facts"):
        assert text in page
    assert "preparation 4.2 ms" in page
    assert "2 written, 1 held, 1 dropped" in page
    data = ok(script.get(address))
    assert data["diagnostics"]["prepare_seconds"] == 0.0042
    assert data["extraction"]["written"] == 2
