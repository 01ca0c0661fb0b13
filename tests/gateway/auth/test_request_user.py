"""The user of a chat and of the model list: header, query and body."""

import httpx2
import pytest

from access.tokens import api_tokens
from access.users import identity
from config.errors import ConfigInvalid
from tests.access.actors import ADA
from tests.conftest import CONFIG
from tests.gateway import mcp_calls
from tests.gateway.calls import (
    PATH,
    bearer,
    body,
    error,
    stored,
    threads,
    user_message,
)

pytestmark = pytest.mark.database

HEADER = "X-Coulisse-User"
NAMELESS = {"model": "assistant", "messages": [user_message("hi")]}
MODELS = ["/v1/models", "/v1/models/assistant"]
BOUND = CONFIG + "auth: {proxy: {tokens: {}}}\n"


@pytest.fixture
def http(server):
    with httpx2.Client(base_url=server, timeout=60, verify=False) as http:
        yield http


def chat(http, content=NAMELESS, **more) -> httpx2.Response:
    return http.post(PATH, json=content, **more)


@pytest.mark.parametrize("stream", [True, False])
def test_chat_header_names_the_user(http, fake, user, stream):
    for name in (user, f"{user}-b"):
        fake.reply("hello")
        content = {**NAMELESS, "stream": stream}
        assert chat(http, content, headers={HEADER: name}).status_code == 200
        assert len(stored(name)) == 2


def test_chat_query_names_the_user(http, fake, user):
    fake.reply("hello")
    assert chat(http, params={"safety_identifier": user}).status_code == 200
    assert len(stored(user)) == 2


def test_chat_header_accepts_any_letters(http, fake, user):
    for _ in range(2):
        fake.reply("hello")
    name = f"{user}-Zoë"
    for encoding in ("utf-8", "latin-1"):
        headers = {HEADER: name.encode(encoding)}
        assert chat(http, headers=headers).status_code == 200
    assert len(stored(name)) == 4


def test_chat_accepts_equal_user_names(http, fake, user):
    fake.reply("hello")
    answer = chat(
        http,
        {**NAMELESS, "safety_identifier": user},
        params={"safety_identifier": [user, f" {user} "]},
        headers={HEADER: user},
    )
    assert answer.status_code == 200
    assert len(stored(user)) == 2


CONFLICTS = [
    ({"headers": {HEADER: "A"}, "params": {"safety_identifier": "B"}}, {}),
    ({"headers": {HEADER: "A"}}, {"safety_identifier": "B"}),
    ({"headers": {HEADER: "A"}}, {"user": "B"}),
    ({}, {"safety_identifier": "A", "user": "B"}),
    ({"params": {"safety_identifier": "A"}}, {"safety_identifier": "B"}),
    ({"params": {"safety_identifier": ["A", "B"]}}, {}),
    ({"headers": [(HEADER, "A"), (HEADER, "B")]}, {}),
    ({"headers": [(HEADER, "A"), (HEADER.lower(), "B")]}, {"user": "A"}),
]


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(("named", "fields"), CONFLICTS)
def test_chat_conflicting_names_are_refused(http, fake, named, fields, stream):
    refusal = error(chat(http, {**NAMELESS, **fields, "stream": stream}, **named), 400)
    assert (refusal["code"], refusal["param"]) == ("user_conflict", "safety_identifier")
    assert "'A' in " in refusal["message"]
    assert "'B' in " in refusal["message"]
    assert fake.requests == []


def test_conflict_names_both_places(http):
    named = {"headers": {HEADER: "A"}, "params": {"safety_identifier": "B"}}
    assert error(chat(http, **named), 400)["message"] == (
        "the request names two users, 'B' in query.safety_identifier and 'A' in the "
        f"header {HEADER}: name one"
    )


OPEN_WEBUI = CONFIG + (
    "users: {headers: {user: X-OpenWebUI-User-Id, thread: X-OpenWebUI-Chat-Id}}\n"
)


def test_configured_headers_name_user_and_thread(http, configure, fake, user):
    configure(OPEN_WEBUI)
    named = {"X-OpenWebUI-User-Id": user, "x-openwebui-chat-id": "c1"}
    for headers in (named, {HEADER: user, "X-Coulisse-Thread": "c2"}):
        fake.reply("hello")
        assert chat(http, headers=headers).status_code == 200
    assert threads(user) == ["c1", "c2"]
    refusal = error(chat(http, headers={**named, HEADER: "another"}), 400)
    assert refusal["code"] == "user_conflict"
    assert "X-OpenWebUI-User-Id" in refusal["message"]


@pytest.mark.parametrize(
    ("headers", "message"),
    [
        ("{user: Authorization}", "another meaning"),
        ("{user: 'a b'}", "headers"),
        ("{user: X-A, thread: x-a}", "different headers"),
        ("{users: X-A}", "users"),
    ],
)
def test_invalid_header_names_are_refused(configure, headers, message):
    with pytest.raises(ConfigInvalid, match=message):
        configure(f"{CONFIG}users: {{headers: {headers}}}\n")


@pytest.mark.parametrize("name", ["", "x" * 513])
@pytest.mark.parametrize("place", ["header", "query"])
def test_invalid_name_is_refused(http, fake, name, place):
    named = (
        {"headers": {HEADER: name}}
        if place == "header"
        else {"params": {"safety_identifier": name}}
    )
    for answer in (chat(http, **named), *(http.get(path, **named) for path in MODELS)):
        assert error(answer, 400)["param"] == "safety_identifier"
    assert fake.requests == []


def test_unknown_query_parameter_is_refused(http, fake, user):
    requested = {"safety_identifer": user}
    answers = [chat(http, body(user), params=requested)]
    answers += [http.get(path, params=requested) for path in MODELS]
    for answer in answers:
        refusal = error(answer, 400)
        assert (refusal["param"], refusal["code"]) == (
            "safety_identifer",
            "unknown_parameter",
        )
        assert "safety_identifier" in refusal["message"]
    assert fake.requests == []


def test_unknown_query_parameter_is_quoted_short(http):
    refusal = error(http.get("/v1/models", params={"x" * 5_000: "1"}), 400)
    assert len(refusal["message"]) < 300
    assert len(refusal["param"]) <= 100


def test_query_with_too_many_parameters_is_refused(http, server, fake, user):
    query = "?" + "&".join(["a"] * 2_000)
    answers = [http.post(PATH + query, json=body(user)), http.get("/v1/models" + query)]
    answers.append(http.get("/v1/memories" + query))
    for answer in answers:
        assert error(answer, 400)["code"] == "too_many_parameters"
    listed = http.post("/mcp" + query, json=mcp_calls.rpc("tools/list"))
    assert "more parameters" in listed.json()["error"]["message"]
    assert fake.requests == []


@pytest.mark.parametrize("path", MODELS)
def test_models_accept_an_optional_user(http, path, user):
    assert http.get(path).status_code == 200
    assert http.get(path, headers={HEADER: user}).status_code == 200
    assert http.get(path, params={"safety_identifier": user}).status_code == 200


@pytest.mark.parametrize("path", MODELS)
def test_models_refuse_two_users(http, path, user):
    requested = {"safety_identifier": user}
    answer = http.get(path, params=requested, headers={HEADER: f"{user}-b"})
    assert error(answer, 400)["code"] == "user_conflict"


# With a token, whose principal is the user.


@pytest.fixture
def bound(configure, http, user):
    configure(BOUND)
    http.headers.update(bearer(api_tokens.create_token("test", user, by=ADA)[1]))
    return http


def test_token_user_may_be_named_anywhere(bound, fake, user):
    for named in (
        {},
        {"headers": {HEADER: user}},
        {"params": {"safety_identifier": user}},
    ):
        fake.reply("hello")
        assert chat(bound, **named).status_code == 200
        assert all(bound.get(path, **named).status_code == 200 for path in MODELS)
    assert len(stored(user)) == 6


def test_token_refuses_another_user_anywhere(bound, fake, user):
    other = f"{user}-b"
    for named in (
        {"headers": {HEADER: other}},
        {"params": {"safety_identifier": other}},
    ):
        answers = [chat(bound, **named), *(bound.get(path, **named) for path in MODELS)]
        for answer in answers:
            assert error(answer, 403)["code"] == "identity_mismatch"
    content = {**NAMELESS, "safety_identifier": user, "user": other}
    assert error(chat(bound, content), 403)["code"] == "identity_mismatch"
    assert fake.requests == []


def test_token_that_ignores_client_users(configure, http, fake, user):
    configure(BOUND)
    token = api_tokens.create_token("test", user, client_users="ignore", by=ADA)
    http.headers.update(bearer(token[1]))
    other = f"{user}-b"
    for content, named in (
        ({"user": other}, {}),
        ({"safety_identifier": other, "user": "third"}, {"headers": {HEADER: "x"}}),
        ({}, {"params": {"safety_identifier": other}}),
    ):
        fake.reply("hello")
        assert chat(http, {**NAMELESS, **content}, **named).status_code == 200
    assert len(stored(user)) == 6
    assert stored(other) == []
    assert http.get("/v1/memories", headers={HEADER: other}).status_code == 200


# A token with users of its own.


@pytest.fixture
def front_end(configure, http, user):
    """A token whose principal is `user`, and whose clients name their users."""
    configure(BOUND)
    token = api_tokens.create_token("ui", user, client_users="separate", by=ADA)
    http.headers.update(bearer(token[1]))
    return http


def test_users_of_one_token_have_separate_memories(front_end, fake, user):
    names = (f"{user}-a", f"{user}-b")
    for name in names:
        fake.reply("hello")
        assert chat(front_end, headers={HEADER: name}).status_code == 200
        named = {"headers": {HEADER: name}}
        fact = {"content": f"{name} likes tea"}
        assert front_end.post("/v1/memories", json=fact, **named).status_code < 300
    first, second = (each["messages"] for each in fake.bodies)
    assert first == second
    for name in names:
        assert len(stored(f"{user}/{name}")) == 2
        listed = front_end.get("/v1/memories", params={"safety_identifier": name})
        assert [m["content"] for m in listed.json()["data"]] == [f"{name} likes tea"]
        assert stored(name) == []
    assert stored(user) == []


def test_token_with_separate_users_requires_a_name(front_end, fake, user):
    refusal = error(chat(front_end), 400)
    assert refusal["code"] == "user_required"
    assert "this API token has no user of its own" in refusal["message"]
    assert error(front_end.get("/v1/memories"), 400)["code"] == "user_required"
    assert all(front_end.get(path).status_code == 200 for path in MODELS)
    both = {**NAMELESS, "user": "ada"}
    conflict = error(chat(front_end, both, headers={HEADER: "bob"}), 400)
    assert conflict["code"] == "user_conflict"
    assert fake.requests == []


def test_token_with_separate_users_reaches_no_other_user(front_end, fake, user):
    other = f"{user}-b"
    for name in (user, other, str(identity.derive_user_id(other)), f"../{other}"):
        fake.reply("hello")
        assert chat(front_end, headers={HEADER: name}).status_code == 200
    assert stored(user) == stored(other) == []


def test_budget_of_a_token_is_shared_by_its_users(configure, http, fake, user):
    configure(BOUND)
    terms = {"budget": "total", "limit_micro_usd": 0, "client_users": "separate"}
    token = api_tokens.create_token("ui", user, by=ADA, **terms)
    http.headers.update(bearer(token[1]))
    for name in ("ada", "bob"):
        answer = http.get("/v1/memories", headers={HEADER: name})
        assert error(answer, 429)["type"] == "insufficient_quota"
    assert fake.requests == []


# MCP.


def test_mcp_tool_list_refuses_two_users(server, user):
    url = f"{server}/mcp?safety_identifier={user}"
    message = mcp_calls.rpc("tools/list")
    answer = httpx2.post(
        url, json=message, headers={HEADER: f"{user}-b"}, timeout=60, verify=False
    )
    assert "two users" in answer.json()["error"]["message"]


# The API's documentation.


def test_openapi_describes_header_and_query(http):
    paths = http.get("/v1/openapi.json").json()["paths"]
    for path, method in (
        ("/v1/chat/completions", "post"),
        ("/v1/models", "get"),
        ("/v1/models/{name}", "get"),
    ):
        found = {
            (each["in"], each["name"]) for each in paths[path][method]["parameters"]
        }
        assert {("header", HEADER), ("query", "safety_identifier")} <= found, path
