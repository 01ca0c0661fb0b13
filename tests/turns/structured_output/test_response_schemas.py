"""JSON Schemas of clients: invalid, costly and recursive ones."""

import json
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2
import pytest

from testing.wires import ScriptedAnswer
from tests.gateway.calls import (
    ask,
    body,
    frames,
    post,
    prompt,
    refused,
)
from turns.structured_output import schema_worker_pool

pytestmark = pytest.mark.database

BOTH = pytest.mark.parametrize("agent", ["assistant", "claude"])
EITHER = pytest.mark.parametrize("stream", [True, False])
OBJECT = {"type": "json_object"}
PERSON = {
    "type": "object",
    "properties": {"age": {"type": "integer"}, "name": {"type": "string"}},
    "required": ["age", "name"],
    "additionalProperties": False,
}
ADA = '{"age":36,"name":"Ada"}'
NO_AGE = '{"name": "Ada"}'
MISMATCH = 'response did not match the schema: "age" is a required property'


def schema(schema: Any = PERSON, **more: Any) -> dict:
    inner = {"name": "person", "schema": schema, **more}
    return {"type": "json_schema", "json_schema": inner}


def system_prompt(request: Any) -> str:
    return "".join(text for role, text in prompt(request) if role == "system")


def content(completion: Any) -> Any:
    return completion.choices[0].message.content


@EITHER
@pytest.mark.parametrize(
    "bad",
    [
        {"type": "strange"},
        {"type": 5},
        {"required": "age"},
        {"properties": []},
        {"minLength": -1},
        {"pattern": "("},
        {"$ref": "#/$defs/nowhere"},
        {"$ref": "http://127.0.0.1:9/schema.json"},
        {"$ref": "https://example.com/schema.json"},
        {"$ref": "file:///etc/passwd"},
        {"$ref": "other.json"},
        {"properties": {"a": {"$ref": "file:///etc/hostname"}}},
        {"$schema": "http://127.0.0.1:9/meta.json"},
        {"$id": "http://127.0.0.1:9/a", "$ref": "b"},
        {"$dynamicRef": "http://127.0.0.1:9/a"},
    ],
)
def test_invalid_schema_is_refused_before_any_call(server, fake, user, stream, bad):
    request = body(user, stream=stream, response_format=schema(bad))
    error = refused(server, request)
    assert error["param"] == "response_format"
    assert error["code"] == "invalid_json_schema"
    assert fake.requests == []


def test_references_are_never_fetched(server, fake, user):
    seen = len(fake.requests)
    for reference in ("$ref", "$dynamicRef", "$schema"):
        bad = schema({reference: f"{fake.root_url}/schema.json"})
        refused(server, body(user, response_format=bad))
    assert len(fake.requests) == seen


def test_internal_references_work(client, fake, user):
    tree = {
        "$defs": {
            "node": {
                "type": "object",
                "properties": {
                    "children": {"type": "array", "items": {"$ref": "#/$defs/node"}}
                },
                "required": ["children"],
            }
        },
        "$ref": "#/$defs/node",
    }
    fake.reply('{"children": [{}]}')
    fake.reply('{"children":[{"children":[]}]}')
    completion = ask(client, user, response_format=schema(tree))
    assert content(completion) == '{"children":[{"children":[]}]}'


@pytest.mark.parametrize(
    "draft",
    [
        "http://json-schema.org/draft-07/schema#",
        "https://json-schema.org/draft/2019-09/schema",
        "https://json-schema.org/draft/2020-12/schema",
    ],
)
def test_schema_may_name_its_draft(client, fake, user, draft):
    fake.reply("{}")
    fake.reply(ADA)
    asked = schema({"$schema": draft, **PERSON})
    assert content(ask(client, user, response_format=asked)) == ADA


# Hostile schemas and replies.


@EITHER
@pytest.mark.parametrize(
    "pattern",
    ["^(a+)+$", "^(a|a)*$", "^(?=(a+)+$)(a|b)*$", "(a*)*\\1b", "(?!x)(a|aa)+$"],
)
def test_catastrophic_pattern_ends(server, fake, user, stream, pattern):
    hostile = {"type": "string", "pattern": pattern}
    fake.default = ScriptedAnswer([json.dumps("a" * 2000 + "!")])
    started = time.monotonic()
    request = body(user, stream=stream, response_format=schema(hostile))
    if stream:
        assert "error" in frames(server, request)[-2]
    else:
        refused(server, request, 502)
    assert time.monotonic() - started < 60


@pytest.mark.parametrize(("depth", "good"), [(300, True), (2000, False)])
def test_deeply_nested_reply_is_no_internal_error(
    server, client, fake, user, depth, good
):
    fake.default = ScriptedAnswer(["[" * depth + "]" * depth])
    asked = {"response_format": schema({})}
    if good:
        assert len(content(ask(client, user, **asked))) == 2 * depth
    else:
        refused(server, body(user, **asked), 502)


def test_self_referencing_schema_ends(client, fake, user):
    fake.reply("{}")
    assert content(ask(client, user, response_format=schema({"$ref": "#"}))) == "{}"


@pytest.mark.parametrize("number", ["12345678901234567890123", "0.10", "-1e-400"])
def test_numbers_are_returned_unchanged(client, fake, user, number):
    error = f'{{"n": {number}}}'
    fake.reply(error)
    assert content(ask(client, user, response_format=OBJECT)) == error


def explosive(levels: int) -> dict:
    """Return a schema whose check takes twice as long with each level."""
    definitions: dict = {f"d{levels}": {"type": "integer"}}
    for level in range(levels):
        deeper = {"$ref": f"#/$defs/d{level + 1}"}
        definitions[f"d{level}"] = {"anyOf": [deeper, deeper]}
    return {"$defs": definitions, "$ref": "#/$defs/d0"}


def test_endless_check_does_not_block_other_requests(server, fake, user, monkeypatch):
    monkeypatch.setattr(schema_worker_pool, "CHECK_SECONDS", 0.3)
    fake.reply('"x"')
    shape = {"name": "bomb", "schema": explosive(40)}
    request = body(user, response_format={"type": "json_schema", "json_schema": shape})
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(refused, server, request)
        fake.wait(lambda: fake.requests)
        assert httpx2.get(f"{server}/health/live", timeout=60).status_code == 200
        assert "takes too long" in waiting.result()["message"]


def test_schema_with_references_is_checked(server, fake, user):
    node = {
        "type": "object",
        "properties": {"next": {"$ref": "#"}, "value": {"type": "integer"}},
        "required": ["value"],
        "additionalProperties": False,
    }
    wanted = {"type": "json_schema", "json_schema": {"name": "list", "schema": node}}
    fake.reply('{"value": 1, "next": {"value": "two"}}')
    fake.reply('{"value": 1, "next": {"value": 2}}')
    answer = post(server, body(user, response_format=wanted)).json()
    assert answer["choices"][0]["message"]["content"] == (
        '{"value": 1, "next": {"value": 2}}'
    )
    shown = fake.requests[1].body["messages"][-1]["content"]
    assert '"two" is not of type "integer" at \'next/value\'' in shown
