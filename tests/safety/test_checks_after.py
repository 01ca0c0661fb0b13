"""Checks beside and after the reply, complete and streamed."""

import httpx2
import orjson
import pytest

from access.users import identity
from telemetry.models import Turn
from telemetry.storage import turn_store
from testing.wires import ScriptedAnswer
from tests.gateway.calls import (
    body,
    choices,
    frames,
    open_connection,
    post,
    text_of,
)
from tests.safety.safe_server import (
    check,
    control_check,
    incidents_of,
    safety_yaml,
    script,
    verdict,
)
from tests.tasks.conftest import wait_until

pytestmark = pytest.mark.database

MASK = {"flagged": {"mask": True}}
PII = check("pii", "after", by={"pii": ["email", "phone"]}, actions=MASK)
LONG = "This sentence is harmless. " * 20


@pytest.fixture
def user_id(user):
    return identity.derive_user_id(user)


def reply_of(server, user, *, stream: bool, **more) -> str:
    request = body(user, "Hello", **more)
    if stream:
        return text_of(frames(server, request))
    return post(server, request).json()["choices"][0]["message"]["content"]


STREAM = pytest.mark.parametrize("stream", [False, True], ids=["complete", "streamed"])


@STREAM
def test_personal_data_in_a_reply_is_masked(
    server, configure, fake, user, user_id, stream
):
    configure(safety_yaml(PII))
    text = f"{LONG}Write to jane.doe@example.com. {LONG}Or call +49 30 123456."
    fake.reply(*text)  # One character at a time.
    expected = f"{LONG}Write to [email]. {LONG}Or call [phone]."
    assert reply_of(server, user, stream=stream) == expected
    (incident,) = incidents_of(user_id)
    assert (incident.stage, incident.reason) == ("after", "email, phone")
    # The transcript has what the client received.
    fake.reply("Yes.")
    post(server, body(user, "Again?"))
    assert "jane" not in str(fake.requests[-1].body)


def test_stream_holds_back_one_window_at_most(server, configure, fake, user):
    configure(safety_yaml(PII, window_chars=100))
    fake.hang("mid_stream", LONG[:301], "The end.")
    request = {**body(user, "Hello"), "stream": True}
    text = ""
    with httpx2.stream(
        "POST", f"{server}/v1/chat/completions", json=request, timeout=60
    ) as response:
        for line in response.iter_lines():
            if line.startswith("data: {"):
                (choice,) = orjson.loads(line[6:])["choices"]
                text += choice["delta"].get("content") or ""
            if len(text) >= 201:
                fake.release()
    assert text == f"{LONG[:301]}The end."


@STREAM
def test_reply_is_replaced(server, configure, fake, user, user_id, stream):
    configure(
        safety_yaml(check(when="after", actions={"flagged": {"replace": "Sorry."}}))
    )
    fake.reply(*LONG, "A forbidden word. ", *LONG)
    text = reply_of(server, user, stream=stream)
    if stream:
        # What the client has received stays.
        assert text.endswith("\n\nSorry.")
        assert LONG.startswith(text.removesuffix("\n\nSorry."))
        assert len(text) > len(LONG) - 200
    else:
        assert text == "Sorry."
    assert "forbidden" not in text
    (incident,) = incidents_of(user_id)
    assert "forbidden" in incident.excerpt


def test_stopped_stream_closes_the_call(server, configure, fake, user):
    configure(safety_yaml(check(when="after", actions={"flagged": {"refuse": "No."}})))
    fake.hang("mid_stream", f"forbidden {LONG}", LONG)
    read = frames(server, body(user, "Hello"))
    assert choices(read)[-1]["finish_reason"] == "content_filter"
    assert text_of(read) == ""
    fake.wait(lambda: fake.is_idle)


@STREAM
@pytest.mark.parametrize("when", ["beside", "after"])
def test_control_model_decides_before_the_end(
    server, configure, fake, user, user_id, when, stream
):
    actions = {"crisis": {"replace": "Call 112."}}
    configure(safety_yaml(control_check(when=when, actions=actions)))
    script(fake, verdict("crisis"), "A short reply.")
    text = reply_of(server, user, stream=stream)
    if when == "beside" and stream:
        # Without a check of the reply, its text is not held back.
        text = text.removeprefix("A short reply.\n\n")
    assert text == "Call 112."
    asked = next(r for r in fake.requests if r.body["model"] == "control")
    seen = asked.body["messages"][-1]["content"].partition("To check:")[2]
    assert ("A short reply." in seen) is (when == "after")
    assert ("Hello" in seen) is (when == "beside")
    (incident,) = incidents_of(user_id)
    assert (incident.stage, incident.level) == (when, "crisis")


def test_check_beside_does_not_delay_the_call(server, configure, fake, user):
    configure(safety_yaml(control_check(when="beside", timeout_seconds=0.2)))
    script(fake, ScriptedAnswer(hang="headers"), "Paris.")
    response = post(server, body(user, "Hello"))
    assert response.json()["choices"][0]["message"]["content"] == "Paris."
    assert response.headers["X-Coulisse-Safety"] == "distress=error"


def test_reply_must_match_the_schema(server, configure, fake, user, user_id):
    schema = {"type": "object", "properties": {"amount": {"maximum": 100}}}
    action = {"flagged": {"refuse": "No such amount."}}
    configure(
        safety_yaml(check("rules", "after", by={"json_schema": schema}, actions=action))
    )
    fake.reply('{"amount": 20}')
    assert reply_of(server, user, stream=False) == '{"amount": 20}'
    for text in ('{"amount": 200}', "none"):
        fake.reply(text)
        response = post(server, body(user, "Hello"))
        assert response.json()["choices"][0]["message"]["refusal"] == "No such amount."
    reasons = [incident.reason for incident in incidents_of(user_id)]
    assert reasons == ["200 is greater than the maximum of 100", "is not JSON"]


@STREAM
def test_calls_of_a_clients_tools_follow_the_text(
    server, configure, fake, user, stream
):
    configure(safety_yaml(PII))
    tool = {"type": "function", "function": {"name": "add", "parameters": {}}}
    fake.answer(ScriptedAnswer(["Ask me@example.com."], tool_calls=[("add", {"a": 1})]))
    request = body(user, "Hello", tools=[tool])
    if stream:
        deltas = [choice["delta"] for choice in choices(frames(server, request))]
        kinds = [next(iter(delta), "") for delta in deltas if "role" not in delta]
        assert kinds[0] == "content"
        assert set(kinds[1:-1]) == {"tool_calls"}
        assert deltas[1]["content"] == "Ask [email]."
    else:
        message = post(server, request).json()["choices"][0]["message"]
        assert message["content"] == "Ask [email]."
        assert message["tool_calls"][0]["function"]["name"] == "add"


def test_reasoning_is_masked_too(server, configure, fake, user):
    configure(safety_yaml(PII))
    fake.answer(ScriptedAnswer(["Hi."], reasoning=["She is a@example.com", "."]))
    message = post(server, body(user, "Hello")).json()["choices"][0]["message"]
    assert message["reasoning_content"] == "She is [email]."


def test_turns_record_has_the_check(server, configure, fake, user, user_id):
    configure(safety_yaml(control_check(when="after")))
    script(fake, verdict("concern"))
    post(server, body(user, "Hello"))
    (turn,) = Turn.objects.filter(user_id=user_id)
    _, call = turn_store.load_calls([turn.pk])[turn.pk]
    assert (call.name, call.kind, call.result) == ("distress", "safety", "concern")
    (model_call,) = call.calls
    assert (model_call.model, model_call.usage.input_tokens) == ("control", 7)


@STREAM
@pytest.mark.parametrize(
    ("path", "fields"),
    [
        ("/v1/responses", {"input": "Hello"}),
        (
            "/v1/messages",
            {"max_tokens": 100, "messages": [{"role": "user", "content": "Hello"}]},
        ),
    ],
    ids=["responses", "messages"],
)
def test_other_endpoints_mask_and_replace(
    server, configure, fake, user, path, fields, stream
):
    words = check(when="after", actions={"flagged": {"replace": "Sorry."}})
    configure(safety_yaml(PII, words))
    request = {"model": "assistant", "stream": stream, **fields}
    headers = {"X-Coulisse-User": user}

    def ask() -> str:
        response = httpx2.post(server + path, json=request, headers=headers, timeout=60)
        assert response.status_code == 200, response.text
        return response.text

    fake.reply("Write to ", "jane@exam", "ple.com.")
    text = ask()
    assert "Write to [email]." in text
    assert "jane" not in text
    fake.reply("forbidden")
    text = ask()
    assert "Sorry." in text
    assert "forbidden" not in text


def script_slow(fake, *, reply: ScriptedAnswer) -> None:
    """Answer control models after a pause."""
    found = ScriptedAnswer([verdict("crisis")], pause_seconds=0.5)
    script(fake, found, reply)


@pytest.mark.parametrize("when", ["beside", "after"])
def test_check_ends_though_the_client_leaves(
    server, configure, fake, user, user_id, when
):
    configure(safety_yaml(control_check(when=when)))
    pieces = ["Paris.", " The end."]
    script_slow(fake, reply=ScriptedAnswer(pieces, hang="mid_stream"))
    with open_connection(server, body(user, "Hello", stream=True)) as caller:
        caller.read_until("Paris.")
    wait_until(lambda: incidents_of(user_id))
    (incident,) = incidents_of(user_id)
    assert (incident.stage, incident.level) == (when, "crisis")


@pytest.mark.parametrize("when", ["beside", "after"])
def test_check_ends_though_the_provider_fails(
    server, configure, fake, user, user_id, when
):
    configure(safety_yaml(control_check(when=when)))
    pieces = ["Paris.", " The end."]
    script_slow(fake, reply=ScriptedAnswer(pieces, cut="mid_stream"))
    frames(server, body(user, "Hello"))
    wait_until(lambda: incidents_of(user_id))
    (incident,) = incidents_of(user_id)
    assert (incident.stage, incident.level) == (when, "crisis")


def test_check_beside_ends_though_another_decides(
    server, configure, fake, user, user_id
):
    words = check(when="after", actions={"flagged": {"replace": "Sorry."}})
    configure(safety_yaml(words, control_check(when="beside")))
    pieces = [f"forbidden {LONG}", LONG]
    script_slow(fake, reply=ScriptedAnswer(pieces, hang="mid_stream"))
    assert text_of(frames(server, body(user, "Hello"))) == "Sorry."
    wait_until(lambda: len(incidents_of(user_id)) == 2)
    assert [each.check_name for each in incidents_of(user_id)] == ["words", "distress"]
