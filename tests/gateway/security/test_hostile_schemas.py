"""Schemas that would cost memory or time are refused, without delays."""

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psutil
import pytest

from testing.wires import ScriptedAnswer
from tests.gateway.calls import ask, body, post, refused, stored
from turns.structured_output import schema_worker_pool

pytestmark = pytest.mark.database

MAX_GROWTH_BYTES = 150_000_000
"""The memory growth limit of the process; the attack took three billion bytes."""
LETTERS = r"\p{L}{200}"


def patterns(count: int) -> list[str]:
    """Return different patterns that each take megabytes when compiled."""
    return [f"{LETTERS}{number}" for number in range(count)]


def in_properties(count: int) -> dict[str, Any]:
    return {
        "properties": {
            f"p{number}": {"pattern": pattern}
            for number, pattern in enumerate(patterns(count))
        }
    }


def nested(depth: int) -> bytes:
    """Return a request with a schema of this depth, as bytes: libraries refuse it."""
    start, end = '{"not":', "}"
    schema = f"{start * depth}true{end * depth}"
    shape = f'{{"name": "deep", "schema": {schema}}}'
    return (
        '{"model": "assistant", "safety_identifier": "deep", '
        '"messages": [{"role": "user", "content": "hi"}], '
        f'"response_format": {{"type": "json_schema", "json_schema": {shape}}}}}'
    ).encode()


def doubling(levels: int, keyword: str) -> dict[str, Any]:
    """Return a schema whose work doubles with each level."""
    definitions: dict[str, Any] = {f"d{levels}": {"type": "integer"}}
    for level in range(levels):
        deeper = {"$ref": f"#/$defs/d{level + 1}"}
        definitions[f"d{level}"] = {keyword: [deeper, deeper]}
    return {"$defs": definitions, "$ref": "#/$defs/d0"}


ATTACKS: dict[str, Any] = {
    "36 KB of patterns": in_properties(900),
    "patterns within the count": in_properties(90),
    "patternProperties": {"patternProperties": dict.fromkeys(patterns(90), True)},
    "propertyNames": {
        "allOf": [{"propertyNames": {"pattern": each}} for each in patterns(90)]
    },
    "$defs": {
        "$defs": {"hidden": in_properties(90)},
        "$ref": "#/$defs/hidden",
    },
    "one long pattern": {"pattern": "(a|b)" * 500},
    "2 MB": {"description": "x" * 1_900_000},
    "huge enum": {"enum": list(range(45_000))},
    "many values": {"enum": [[] for _ in range(30_000)]},
    "repetition of a repetition": {"pattern": "((a{1,1000}){1,1000}){1,1000}"},
}


def schema(schema: Any) -> dict[str, Any]:
    inner = {"name": "shape", "schema": schema}
    return {"type": "json_schema", "json_schema": inner}


@pytest.fixture
def steady() -> Iterator[None]:
    """Fail if the process's memory grows too much in this block."""
    process = psutil.Process()
    before = process.memory_info().rss
    done = threading.Event()
    seen = [before]

    def watch() -> None:
        while not done.wait(0.02):
            seen.append(process.memory_info().rss)

    watching = threading.Thread(target=watch)
    watching.start()
    try:
        yield
    finally:
        done.set()
        watching.join()
    assert max(seen) - before < MAX_GROWTH_BYTES


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("attack", ATTACKS)
def test_costly_schema_is_refused_before_any_model(
    server, fake, user, steady, attack, stream
):
    request = body(user, stream=stream, response_format=schema(ATTACKS[attack]))
    refusal = refused(server, request)
    assert refusal["param"] == "response_format"
    assert refusal["code"] == "invalid_json_schema"
    assert len(refusal["message"]) < 600
    assert fake.requests == []
    assert stored(user) == []


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("depth", [70, 300, 10_000])
def test_deep_schema_is_refused(server, fake, steady, depth, stream):
    request = nested(depth)
    if stream:
        request = request.replace(b'{"model"', b'{"stream": true, "model"', 1)
    refusal = refused(server, request)
    assert refusal["type"] == "invalid_request_error"
    assert len(refusal["message"]) < 600
    assert fake.requests == []


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("keyword", ["allOf", "anyOf", "oneOf"])
def test_exponential_reference_check_ends(
    server, fake, user, steady, keyword, stream, monkeypatch
):
    monkeypatch.setattr(schema_worker_pool, "CHECK_SECONDS", 0.5)
    fake.reply("5" if keyword == "allOf" else '"x"')
    hostile = schema(doubling(40, keyword))
    answer = post(server, body(user, stream=stream, response_format=hostile))
    assert "takes too" in answer.text
    assert answer.status_code == (200 if stream else 400)


def test_patterns_that_backtrack_do_not_stall_the_check(client, fake, user, steady):
    value = "a" * 5000 + "!"
    fake.reply(json.dumps([value] * 20))
    fake.reply('["aa"]')
    hostile = {"type": "array", "items": {"pattern": "^(a+)+$"}}
    completion = ask(client, user, response_format=schema(hostile))
    assert completion.choices[0].message.content == '["aa"]'


CYCLES = {
    "itself": {"$ref": "#"},
    "each other": {
        "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}},
        "$ref": "#/$defs/a",
    },
    "dynamic": {"$dynamicAnchor": "node", "$dynamicRef": "#node"},
    "recursive": {
        "$schema": "https://json-schema.org/draft/2019-09/schema",
        "$recursiveAnchor": True,
        "allOf": [{"$recursiveRef": "#"}],
    },
}


@pytest.mark.parametrize("cycle", CYCLES)
def test_cycles_of_references_end(server, fake, user, steady, cycle):
    fake.reply("{}")
    answer = post(server, body(user, response_format=schema(CYCLES[cycle])))
    assert answer.status_code in (200, 400), answer.text


def test_reply_with_a_million_elements_does_not_fill_the_server(
    client, fake, user, steady
):
    fake.reply("[" + ",".join(map(str, range(300_000))) + "]")
    shape = {"type": "array", "uniqueItems": True, "items": {"type": "integer"}}
    completion = ask(client, user, response_format=schema(shape))
    assert completion.choices[0].message.content.endswith(",299999]")


def test_large_reply_mismatch_message_is_short(server, fake, user, steady):
    fake.default = ScriptedAnswer(["[" + ",".join(["0"] * 200_000) + "]"])
    shape = {"items": {"type": "string"}}
    refusal = refused(server, body(user, response_format=schema(shape)), 502)
    assert 'is not of type "string"' in refusal["message"]
    fake.default = ScriptedAnswer(["[" + ",".join(["0"] * 200_000) + "]"])
    refusal = refused(
        server, body(user, response_format=schema({"type": "string"})), 502
    )
    assert 'is not of type "string"' in refusal["message"]
    assert len(refusal["message"]) < 600


def test_other_clients_are_answered_during_costly_schema_checks(
    server, client, fake, user
):
    hostile = body(user, response_format=schema(ATTACKS["patterns within the count"]))
    with ThreadPoolExecutor(8) as pool:
        attacks = [pool.submit(post, server, hostile) for _ in range(8)]
        for _ in range(5):
            assert ask(client, f"other-{user}").choices[0].message.content
        assert {attack.result().status_code for attack in attacks} == {400}
