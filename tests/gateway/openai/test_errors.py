"""Errors have OpenAI's format and the right status."""

import json
import socket
from urllib.parse import urlsplit

import httpx2
import openai
import pytest

from tests.gateway.calls import (
    PATH,
    ask,
    body,
    error,
    post,
    refused,
    stored,
    user_message,
)

pytestmark = pytest.mark.database

BOTH = pytest.mark.parametrize("agent", ["assistant", "claude"])
JSON = {"Content-Type": "application/json"}


# Bodies that are not a request.


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b'{"model": ',
        b"[]",
        b"null",
        b'"text"',
        b"5",
        b"[" * 100_000,
        b'{"a":' * 5_000,
        b'{"model": "\xff"}',
        b'{"model": "\\ud800"}',
        b"\xef\xbb\xbf{}",
        b'{"temperature": NaN}',
    ],
)
def test_invalid_json_body_is_refused(server, content):
    assert refused(server, content)["code"] == "invalid_json"


def test_lone_surrogate_is_refused_everywhere(server, fake, user):
    message = json.dumps(body(user, "X")).replace("X", "\\udc00").encode()
    assert refused(server, message)["code"] == "invalid_json"
    assert fake.requests == []


@pytest.mark.parametrize(
    "headers",
    [{"Content-Type": "text/plain"}, {}, {"Content-Type": "multipart/form-data"}],
)
def test_content_type_of_a_cross_site_form_is_refused(server, fake, user, headers):
    content = json.dumps(body(user)).encode()
    refusal = refused(server, content, headers=headers)
    assert refusal["code"] == "unsupported_content_type"
    assert "application/json" in refusal["message"]
    assert fake.requests == []


def test_content_type_may_name_a_charset(server, user):
    headers = {"Content-Type": "Application/JSON; charset=utf-8"}
    content = json.dumps(body(user)).encode()
    assert post(server, content, headers=headers).status_code == 200


# Addresses and methods.


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE"])
def test_wrong_method_is_405_with_allow(server, method):
    response = httpx2.request(method, server + PATH)
    assert error(response, 405)["code"] == "method_not_allowed"
    assert set(response.headers["allow"].split(", ")) == {"GET", "POST"}


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize(
    "path",
    [
        "/v1",
        "/v1/",
        "/v1/nope",
        "/v1/images/edits",
        f"{PATH}/",
        "/v1/%ff",
        "/",
        "/nope",
    ],
)
def test_unknown_path_is_404(server, method, path):
    refusal = error(httpx2.request(method, server + path), 404)
    assert refusal["type"] == "invalid_request_error"
    assert method in refusal["message"]


def test_sdk_raises_its_typed_errors(client, user):
    with pytest.raises(openai.NotFoundError) as caught:
        ask(client, user, agent="nobody")
    assert caught.value.code == "model_not_found"
    with pytest.raises(openai.BadRequestError) as caught:
        ask(client, user, temperature=3)
    assert caught.value.param == "temperature"


# Models.


@pytest.mark.parametrize("stream", [True, False])
def test_an_unknown_model_is_not_found(server, fake, user, stream):
    refusal = refused(server, body(user, agent="nobody", stream=stream), 404)
    assert refusal["type"] == "invalid_request_error"
    assert refusal["code"] == "model_not_found"
    assert refusal["param"] == "model"
    assert "'nobody'" in refusal["message"]
    assert fake.requests == []
    assert stored(user) == []


def test_misspelled_model_gets_a_suggestion(server, user):
    refusal = refused(server, body(user, agent="asistant"), 404)
    assert "did you mean 'assistant'?" in refusal["message"]


# Invalid requests, by the invalid field.


def without(name: str) -> dict:
    request = body("someone")
    del request[name]
    return request


@pytest.mark.parametrize("name", ["model", "messages"])
def test_missing_parameter_is_named(server, name):
    refusal = refused(server, without(name))
    assert refusal["param"] == name
    assert refusal["code"] == "missing_required_parameter"


def test_unknown_parameter_is_named(server, fake):
    refusal = refused(server, body("someone", temprature=1))
    assert refusal["param"] == "temprature"
    assert refusal["code"] == "unknown_parameter"
    assert fake.requests == []


def user_says(content: object) -> dict:
    return {"messages": [user_message("before"), {"role": "user", "content": content}]}


SCHEMA = {"type": "json_schema", "json_schema": {"name": "a b", "schema": {}}}


@pytest.mark.parametrize(
    ("change", "param"),
    [
        ({"messages": []}, "messages"),
        ({"messages": {"role": "user"}}, "messages"),
        ({"messages": ["hi"]}, "messages[0]"),
        ({"messages": [{"content": "hi"}]}, "messages[0].role"),
        ({"messages": [{"role": "nobody", "content": "hi"}]}, "messages[0].role"),
        ({"messages": [{"role": "user"}]}, "messages[0].content"),
        (user_says(5), "messages[1].content"),
        (user_says(None), "messages[1].content"),
        (user_says([]), "messages[1].content"),
        (user_says(["hi"]), "messages[1].content[0]"),
        (user_says([{"type": "text"}]), "messages[1].content[0].text"),
        (user_says([{"type": "video"}]), "messages[1].content[0].type"),
        (
            user_says([{"type": "image_url", "image_url": {"url": ""}}]),
            "messages[1].content[0].image_url.url",
        ),
        (
            user_says([{"type": "input_audio", "input_audio": {"format": "wav"}}]),
            "messages[1].content[0].input_audio.data",
        ),
        (
            {"messages": [{"role": "system", "content": [{"type": "image_url"}]}]},
            "messages[0].content[0].type",
        ),
        ({"messages": [{"role": "tool", "content": "x"}]}, "messages[0].tool_call_id"),
        (
            {"messages": [{"role": "assistant", "tool_calls": [{"id": 1}]}]},
            "messages[0].tool_calls[0].id",
        ),
        ({"model": ""}, "model"),
        ({"model": 5}, "model"),
        ({"temperature": 3}, "temperature"),
        ({"temperature": -0.1}, "temperature"),
        ({"temperature": "hot"}, "temperature"),
        ({"temperature": "1"}, "temperature"),
        ({"temperature": True}, "temperature"),
        ({"top_p": 1.1}, "top_p"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": True}, "max_tokens"),
        ({"max_completion_tokens": 1.5}, "max_completion_tokens"),
        ({"seed": 10**30}, "seed"),
        ({"presence_penalty": 2.1}, "presence_penalty"),
        ({"frequency_penalty": -2.1}, "frequency_penalty"),
        ({"logit_bias": {"5": 101}}, "logit_bias.5"),
        ({"stop": 5}, "stop"),
        ({"stop": ["a", 5]}, "stop[1]"),
        ({"stop": list("abcde")}, "stop"),
        ({"stream": "yes"}, "stream"),
        ({"stream_options": {"nope": 1}, "stream": True}, "stream_options.nope"),
        ({"reasoning_effort": "huge"}, "reasoning_effort"),
        ({"verbosity": "chatty"}, "verbosity"),
        ({"metadata": {"a": 1}}, "metadata.a"),
        ({"metadata": {"body": None}}, "metadata.body"),
        ({"metadata": []}, "metadata"),
        ({"user": 5}, "user"),
        ({"response_format": "json"}, "response_format"),
        ({"response_format": {"type": "xml"}}, "response_format.type"),
        ({"response_format": SCHEMA}, "response_format.json_schema.name"),
        (
            {"response_format": {"type": "json_schema"}},
            "response_format.json_schema",
        ),
        ({"tools": [{"type": "web"}]}, "tools[0].type"),
        (
            {"tools": [{"type": "function", "function": {}}]},
            "tools[0].function.name",
        ),
        (
            {"tools": [{"type": "function", "function": {"name": "two words"}}]},
            "tools[0].function.name",
        ),
        ({"tool_choice": "sometimes"}, "tool_choice"),
        ({"tool_choice": {"type": "function"}}, "tool_choice.function"),
    ],
)
def test_invalid_field_is_located(server, fake, change, param):
    refusal = refused(server, {**body("someone"), **change})
    assert refusal["param"] == param
    assert refusal["type"] == "invalid_request_error"
    assert fake.requests == []


@pytest.mark.parametrize("depth", [300, 900])
def test_a_value_too_deep_to_write_again_is_refused(server, fake, depth):
    deep = json.loads('{"a":' * depth + "1" + "}" * depth)
    refused(server, body("someone", prediction=deep))
    requested = {"type": "json_schema", "json_schema": {"name": "a", "schema": deep}}
    refused(server, body("someone", response_format=requested))
    tool = {"type": "function", "function": {"name": "a", "parameters": deep}}
    refused(server, body("someone", tools=[tool]))
    assert fake.requests == []


def test_integer_above_64_bits_is_a_client_error(server):
    request = body("someone", prediction={"n": 2**70}) | {"seed": 2**70}
    assert refused(server, request)["type"] == "invalid_request_error"


@BOTH
def test_nul_character_is_accepted_in_text(client, fake, user, agent):
    ask(client, user, "a\0b", agent=agent)
    assert "a\\u0000b" in json.dumps(fake.bodies[-1])
    # PostgreSQL cannot store NUL.
    assert stored(user)[0] == ("user", "a\ufffdb", "")
    ask(client, f"{user}\0", agent=agent)


# Bodies larger than server.max_body_bytes (2 MiB here).

MIB = 1024 * 1024


@pytest.mark.parametrize("size", [2 * MIB + 1, 10 * MIB])
def test_oversized_body_is_413(server, fake, size):
    refusal = refused(server, b" " * size, 413)
    assert refusal["code"] == "body_too_large"
    assert "2097152 bytes" in refusal["message"]
    assert "max_body_bytes" not in refusal["message"]
    assert fake.requests == []


@pytest.mark.parametrize("chunks", [3, 10])
def test_chunked_oversized_body_is_413(server, chunks):
    content = (b" " * MIB for _ in range(chunks))
    response = httpx2.post(server + PATH, content=content, headers=JSON, timeout=60)
    assert error(response, 413)["code"] == "body_too_large"


def test_expect_continue_with_oversized_body_is_413(server):
    address = urlsplit(server)
    with socket.create_connection((address.hostname, address.port), 10) as caller:
        caller.sendall(
            b"POST %s HTTP/1.1\r\nHost: test\r\nContent-Type: application/json\r\n"
            b"Content-Length: 99999999\r\nExpect: 100-continue\r\n\r\n" % PATH.encode()
        )
        answer = caller.recv(65536)
    assert answer.startswith(b"HTTP/1.1 413")


def test_server_keeps_answering_after_an_oversized_body(server, user):
    with httpx2.Client(timeout=60) as client:
        for _ in range(3):
            large = client.post(server + PATH, content=b" " * 3 * MIB, headers=JSON)
            assert large.status_code == 413
            assert client.post(server + PATH, json=body(user)).status_code == 200


def test_body_at_the_limit_is_read(server, fake, user):
    frame = len(json.dumps(body(user, "")))
    text = "x" * (2 * MIB - frame)
    assert len(json.dumps(body(user, text)).encode()) == 2 * MIB
    content = json.dumps(body(user, text)).encode()
    assert post(server, content).status_code == 200
    assert fake.bodies[-1]["messages"][-1]["content"] == text


def test_body_limit_follows_the_yaml(server, fake, user, configure):
    configure(
        "server: {max_body_bytes: 6000000}\n"
        "providers: {openai: {base_url: '{fake}/v1'}}\n"
        "agents: [{name: assistant, provider: openai, model: gpt}]"
    )
    assert post(server, body(user, "x" * 5_000_000)).status_code == 200
    refused(server, body(user, "x" * 6_000_000), 413)
