"""Compilation and checks of schemas, in the process or in a child, and their cache."""

import asyncio
from typing import Any

import orjson
import pytest

from core.text.sanitization import MAX_QUOTED
from tests.gateway.calls import ask, body, error, post, refused, until
from tests.gateway.limits.test_usage_limits import is_clear, limited, meters_of  # noqa: F401
from turns.errors import SchemaInvalid
from turns.structured_output import (
    reply_schema,
    schema_cost,
    schema_worker,
    schema_worker_pool,
)
from turns.structured_output.reply_schema import (
    CompiledSchema,
    ReplySchema,
    _SchemaCache,
)
from turns.structured_output.schema_cost import SchemaWeight
from turns.structured_output.schema_worker_pool import _WorkerPool

database = pytest.mark.database
CHEAP = {"type": "integer"}
COSTLY = {"type": "string", "pattern": "^[a-z]+$"}


@pytest.fixture
def remembered(monkeypatch) -> _SchemaCache:
    """An empty cache of schemas."""
    found = _SchemaCache()
    monkeypatch.setattr(reply_schema, "_cache", found)
    return found


@pytest.fixture
def work(monkeypatch, remembered) -> list[str]:
    """The compilations and checks, each with its place."""
    done: list[str] = []

    def watched(module: Any, name: str, word: str) -> None:
        function = getattr(module, name)

        def watch(*args: Any) -> Any:
            done.append(word)
            return function(*args)

        monkeypatch.setattr(module, name, watch)

    watched(schema_worker, "compile_schema", "compile here")
    watched(schema_worker, "is_valid", "check here")
    watched(schema_worker, "first_error", "explain here")
    watched(schema_worker_pool, "compile_error", "compile in child")
    watched(schema_worker_pool, "first_error", "check in child")
    return done


@pytest.fixture
async def closed():
    yield
    await schema_worker_pool.close()


def format_of(schema: Any) -> dict[str, Any]:
    inner = {"name": "shape", "schema": schema}
    return {"type": "json_schema", "json_schema": inner}


async def check(schema: Any, reply: Any) -> str | None:
    text = orjson.dumps(reply).decode()
    return await reply_schema.from_client(schema).first_error(text, reply)


async def test_cheap_schema_is_compiled_once_in_process(work):
    assert await check(CHEAP, 5) is None
    assert await check(CHEAP, "x") == '"x" is not of type "integer"'
    assert work == ["compile here", "check here", "check here", "explain here"]


async def test_costly_schema_is_compiled_once_in_a_child(work, closed):
    assert await check(COSTLY, "abc") is None
    assert "does not match" in (await check(COSTLY, "5") or "")
    assert work == ["compile in child", "check in child", "check in child"]


async def test_long_reply_is_checked_in_a_child(work, closed):
    assert await check({}, "x" * schema_cost.MAX_WORK) is None
    assert work == ["compile here", "check in child"]


async def test_costly_mismatch_is_explained_in_a_child(work, closed, monkeypatch):
    """An error for each failing alternative of each item took three seconds."""
    # The child limits its own CPU time; a busy machine may take longer.
    monkeypatch.setattr(schema_worker_pool, "CHECK_SECONDS", 60.0)
    schema: Any = {"type": "integer"}
    for _ in range(29):
        schema = {"anyOf": [schema, {"items": False}]}
    assert await check(schema, 5) is None
    assert "is not valid under any" in (await check(schema, [0] * 10) or "")
    assert work == ["compile here", "check here", "check here", "explain here"]
    assert "is not valid under any" in (await check(schema, [0] * 500) or "")
    assert work[4:] == ["check here", "check in child"]


async def test_property_order_changes_the_schema_digest(remembered, closed):
    one, other = {"minimum": 1, "maximum": 2}, {"maximum": 2, "minimum": 1}
    assert (
        reply_schema.from_client(one).digest != reply_schema.from_client(other).digest
    )


@pytest.mark.parametrize("more", [{}, {"pattern": "a"}])
async def test_error_quotes_little_of_an_invalid_schema(remembered, closed, more):
    """In this process and in a child."""
    schema = {"type": "\x1b" + "x" * 1000, **more}
    with pytest.raises(SchemaInvalid) as refused:
        await reply_schema.from_client(schema).compile()
    _, _, quoted = str(refused.value).partition("JSON Schema: ")
    assert 10 < len(quoted) <= MAX_QUOTED
    assert quoted.isprintable()


async def test_invalid_schema_is_not_cached(work):
    for _ in range(2):
        with pytest.raises(SchemaInvalid, match="is not a valid JSON Schema"):
            await reply_schema.from_client({"type": "strange"}).compile()
    assert work == ["compile here"] * 2


async def test_reply_nested_too_deeply_is_a_mismatch(remembered):
    reply: Any = []
    for _ in range(250):
        reply = [reply]
    for schema in ({"type": "string"}, {"uniqueItems": True, "maxItems": 0}):
        assert await check(schema, [reply, reply])
    deep = orjson.loads("[" * 1000 + "]" * 1000)
    found = await reply_schema.from_client({"type": "string"}).first_error("[]", deep)
    assert found is not None
    assert "nested too deeply" in found


@pytest.mark.parametrize("weight", [None, SchemaWeight(32)])
def test_schema_cache_is_bounded(weight):
    cache = _SchemaCache()
    for number in range(5000):
        cache.put(b"%d" % number, CompiledSchema(weight), 10_000)
    assert cache._size <= reply_schema.MAX_CACHE_BYTES
    assert len(cache._entries) <= 1024
    assert cache.get(b"4999") is not None
    assert cache.get(b"0") is None


def test_used_schema_stays_in_the_cache():
    cache = _SchemaCache()
    for number in range(5000):
        cache.put(b"%d" % number, CompiledSchema(None), 0)
        assert cache.get(b"0") is not None


def test_lone_surrogate_in_a_schema_is_refused():
    with pytest.raises(SchemaInvalid):
        reply_schema.from_client({"title": "\ud800"})


@database
@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("bad", [{"type": "strange"}, {"pattern": "("}, {"$ref": "a"}])
def test_refused_schema_is_not_charged(limited, fake, user, bad, stream):  # noqa: F811
    server = limited("per: principal, requests_per_hour: 1, concurrent: 1")
    for _ in range(3):
        request = body(user, stream=stream, response_format=format_of(bad))
        assert refused(server, request)["code"] == "invalid_json_schema"
        until(lambda: is_clear(user))
    assert fake.requests == []
    fake.reply("5")
    assert post(server, body(user, response_format=format_of(CHEAP))).status_code == 200
    assert post(server, body(user)).status_code == 429
    assert is_clear(user)


@database
def test_schema_is_not_compiled_over_the_limit(
    limited,  # noqa: F811
    user,
    work,
):
    server = limited("per: principal, tokens_per_day: 0")
    for schema in (CHEAP, COSTLY):
        answer = post(server, body(user, response_format=format_of(schema)))
        assert answer.status_code == 429
    assert work == []


@database
def test_disconnected_client_releases_its_reservation(
    limited,  # noqa: F811
    fake,
    user,
    monkeypatch,
):
    server = limited("per: principal, requests_per_hour: 9")

    async def cancelled(self: ReplySchema) -> CompiledSchema:
        raise asyncio.CancelledError

    with monkeypatch.context() as patch:
        patch.setattr(ReplySchema, "compile", cancelled)
        post(server, body(user, response_format=format_of(CHEAP)))
    assert post(server, body(user)).status_code == 200
    (meter,) = [m for m in meters_of(user).values() if m.window == 3600]
    assert meter.requests == 1
    assert is_clear(user)


@database
@pytest.mark.parametrize("stream", [True, False])
def test_too_many_new_schemas_are_503(
    server, fake, user, monkeypatch, remembered, stream
):
    crowded = _WorkerPool(slots=asyncio.Semaphore(0), waiting=99)
    monkeypatch.setattr(schema_worker_pool, "_current_pool", lambda: crowded)
    request = body(user, stream=stream, response_format=format_of(COSTLY))
    answer = post(server, request)
    assert error(answer, 503)["code"] == "schema_checks_busy"
    assert answer.headers["Retry-After"] == "5"
    assert fake.requests == []


@database
def test_known_schemas_are_checked_while_children_are_busy(
    client, fake, user, monkeypatch, remembered
):
    crowded = _WorkerPool(slots=asyncio.Semaphore(0), waiting=99)
    monkeypatch.setattr(schema_worker_pool, "_current_pool", lambda: crowded)
    fake.reply("5")
    completion = ask(client, user, response_format=format_of(CHEAP))
    assert completion.choices[0].message.content == "5"
