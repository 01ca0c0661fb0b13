"""Unusual requests are refused with 4xx, never with 5xx."""

import json
from urllib.parse import quote

import pytest
from ruamel.yaml import YAML

from admin_base.formats import data_formats
from tests.studio.site_wide.test_addresses import VIEWS, operations_with_bodies

pytestmark = pytest.mark.database

FORM = "application/x-www-form-urlencoded"
LATE = "9999-12-31T23:59:59.999999-23:59"
EARLY = "0001-01-01T00:00:00+23:59"
UUID = "00000000-0000-0000-0000-000000000000"


@pytest.mark.parametrize("accept", ["text/html", "application/json"])
def test_options_names_the_methods_and_has_no_body(script, accept: str) -> None:
    problems = {}
    for path, _, methods in VIEWS:
        response = script.options(path, headers={"Accept": accept})
        allowed = set(response.headers.get("Allow", "").split(", "))
        is_empty = response.status_code == 204 and not response.content
        # Like a GET of an unknown name, or of a path that is not a page.
        is_refused = response.status_code in (404, 406)
        if not (is_empty or is_refused) or not methods <= allowed:
            problems[path] = (response.status_code, allowed, response.text[:100])
    assert problems == {}
    response = script.options("/admin/agents/assistant", headers={"Accept": accept})
    assert (response.status_code, response.content) == (204, b"")


def test_options_cannot_be_a_form_method(browser) -> None:
    response = browser.submit(
        "/admin/agents", {"_method": "OPTIONS"}, form_page="/admin/tokens"
    )
    assert response.status_code in (204, 405)


@pytest.mark.parametrize("place", ["agents/a%00b", "users/a%00b/facts", "tasks/%00"])
def test_nul_in_a_path_is_refused(script, place: str) -> None:
    response = script.get(f"/admin/{place}")
    assert response.status_code == 400
    assert "NUL" in response.json()["error"]["message"]


@pytest.mark.parametrize(
    "query", ["users?q=a%00b", "audit?actor=%00", "accounts?q=%00"]
)
def test_nul_in_a_query_is_refused(script, query: str) -> None:
    response = script.get(f"/admin/{query}")
    assert response.status_code == 400
    assert "NUL" in response.json()["error"]["message"]


@pytest.mark.parametrize("charset", ["unicode_escape", "utf-7", "idna", "zlib"])
def test_query_is_utf8_despite_another_charset(script, charset: str) -> None:
    kind = {"Content-Type": f"text/plain; charset={charset}"}
    for path in ("/admin/users", "/admin/accounts", "/admin/tokens"):
        response = script.get(f"{path}?q=%5Cud800", headers=kind)
        assert response.status_code == 200, path


@pytest.mark.parametrize("charset", ["unicode_escape", "utf-16", "zlib"])
@pytest.mark.parametrize("kind", [FORM, "multipart/form-data; boundary=x"])
def test_form_is_utf8_despite_another_charset(script, kind: str, charset: str) -> None:
    body = b"yaml=%5Cud800"
    if kind != FORM:
        head = b'--x\r\nContent-Disposition: form-data; name="yaml"\r\n\r\n'
        body = head + b"\\ud800\r\n--x--\r\n"
    headers = {"Content-Type": f"{kind}; charset={charset}"}
    response = script.post("/admin/agents", content=body, headers=headers)
    assert response.status_code == 422  # YAML reads the escape as six characters.


@pytest.mark.parametrize("accept", ["text/html", "application/json"])
@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
@pytest.mark.parametrize(
    "path", ["agents", "agents/a", "config/edit", "telemetry", "smoke/runs/a/cancel"]
)
def test_form_with_a_file_is_refused(
    script, path: str, method: str, accept: str
) -> None:
    head = b'--x\r\nContent-Disposition: form-data; name="a"; filename="b"\r\n\r\n'
    kind = {"Content-Type": "multipart/form-data; boundary=x", "Accept": accept}
    response = script.request(
        method, f"/admin/{path}", content=head + b"c\r\n--x--\r\n", headers=kind
    )
    assert response.status_code == 400
    assert "form" in response.text


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE"])
def test_form_with_another_method_is_checked(script, method: str) -> None:
    for path in ("agents/a", "telemetry", "users/a/facts"):
        response = script.request(
            method,
            f"/admin/{path}",
            content=b"yaml=a%00b",
            headers={"Content-Type": FORM},
        )
        assert response.status_code == 400, path
        assert "NUL" in response.json()["error"]["message"]


@pytest.mark.parametrize("body", [b"yaml=a%00b", b"yaml%00=a", b"_method=%00"])
def test_nul_in_a_form_is_refused(script, body: bytes) -> None:
    for path in ("/admin/agents", "/admin/tokens", "/admin/users/a/facts"):
        response = script.post(path, content=body, headers={"Content-Type": FORM})
        assert response.status_code == 400, path
        assert "NUL" in response.json()["error"]["message"]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("9223372036854775808", "64 bits"),
        ("-9223372036854775809", "64 bits"),
        ("1e999", "finite"),
        ('"\\u0000"', "NUL"),
        ('"\\ud800"', "lone surrogate"),
        ('[{"a": "\\udfff"}]', "lone surrogate"),
        ('{"\\u0000": 1}', "NUL"),
    ],
)
def test_json_that_cannot_be_stored_is_refused(
    script, value: str, message: str
) -> None:
    headers = {"Content-Type": "application/json"}
    for method, path in sorted(operations_with_bodies()):
        for body in (value, f'{{"name": {value}}}', f"[{value}]"):
            response = script.request(method, path, content=body, headers=headers)
            assert response.status_code in (400, 404), (method, path, response.text)
    assert operations_with_bodies()
    response = script.post("/admin/tokens", content=value, headers=headers)
    assert message in response.json()["error"]["message"]


@pytest.mark.parametrize(
    "value",
    [
        "9223372036854775808",
        '"\\ud800"',
        '"\\0"',
        ".inf",
        "0x" + "f" * 400,
        "0x" + "f" * 5000,
    ],
)
def test_yaml_that_cannot_be_stored_is_refused(script, value: str) -> None:
    headers = {"Content-Type": "application/yaml"}
    text = f"label: x\nprincipal: {value}\n"
    response = script.post("/admin/tokens", content=text, headers=headers)
    assert response.status_code == 400, response.text
    entry = f"name: x\nprovider: openai\nmodel: gpt-test\npreamble: {value}\n"
    response = script.post("/admin/agents", content=entry, headers=headers)
    assert response.status_code in (400, 422), response.text
    text = f"openai: {value}\n"
    response = script.put("/admin/providers", content=text, headers=headers)
    assert response.status_code in (400, 422), response.text


LISTS = (
    "audit",
    "judges/quality/past-replies",
    "mcp/notes/connections",
    "smoke/runs",
    "tasks",
    "tokens",
    "turns",
    "users",
    "users/ana/facts",
    "users/ana/messages",
    "users/ana/scores",
    "users/ana/threads",
    "users/ana/turns",
)


@pytest.mark.parametrize("at", [LATE, EARLY, "2026-01-01T00:00:00+00:00"])
@pytest.mark.parametrize("key", [UUID, "1", "9223372036854775808", "-1", "9" * 5000])
def test_invalid_page_positions_are_refused(script, at: str, key: str) -> None:
    for path in LISTS:
        response = script.get(f"/admin/{path}?after={quote(f'{at}~{key}')}")
        assert response.status_code < 500, (path, response.text)
        if at in (LATE, EARLY) and response.status_code != 404:
            assert response.status_code in (200, 400), path


@pytest.mark.parametrize(
    "query",
    [
        "_to_field=x",
        "_to_field=",
        "p=99999999999999999999",
        "p=-1",
        "o=9.9",
        "pk=9223372036854775808",
        "id__exact=x",
        "nothing__there=1",
        "q=%ED%A0%80",
        "_changelist_filters=%00",
        "_changelist_filters=%ED%A0%80",
        "e=1",
        "all=",
    ],
)
def test_tables_refuse_invalid_queries(script, query: str) -> None:
    for table in ("audit", "tokens", "groups", "tables/telemetry/modelcall"):
        for rest in ("", "/1", "/1/delete", "/add"):
            response = script.get(f"/admin/{table}{rest}?{query}")
            assert response.status_code < 500, (table, rest, response.text[:300])
            is_refused = response.status_code == 400
            assert rest or is_refused or "all=" in query or "q=" in query, table


def test_table_query_suspicious_to_django_is_400_in_both_formats(script) -> None:
    address = "/admin/tables/telemetry/modelcall?_to_field=x"
    data = script.get(address, headers={"Accept": "application/json"})
    assert data.status_code == 400
    assert data.json()["error"]["type"] == "invalid_request_error"
    page = script.get(address, headers={"Accept": "text/html"})
    assert page.status_code == 400
    assert "<h1>" in page.text


def test_wide_integers_are_accepted_or_refused(script) -> None:
    body = json.dumps({"label": "x", "principal": "y", "limit_usd": 2**31})
    headers = {"Content-Type": "application/json"}
    response = script.post("/admin/tokens", content=body, headers=headers)
    assert response.status_code in (201, 400), response.text


def test_large_yaml_responses_are_json() -> None:
    small, large = {"a": ["b\nc"] * 10}, {"a": [{"b": "c"}] * 20_000}
    data = data_formats.YamlRenderer().render(small)
    assert data.startswith("a:\n  - |")
    data = data_formats.YamlRenderer().render(large)
    assert json.loads(data) == large


UNUSUAL_TEXTS = [
    f"a{chr(code)}b"
    for code in (*range(1, 0xD800), *range(0xE000, 0x10010), 0x10005B, 0x10FFFF)
]
"""JSON strings may have characters that YAML refuses, or reads as line breaks."""


@pytest.mark.parametrize(
    "texts", [UNUSUAL_TEXTS, UNUSUAL_TEXTS[:160], UNUSUAL_TEXTS[-30:-2]]
)
def test_yaml_responses_can_be_read_as_yaml(texts: list[str]) -> None:
    data = data_formats.YamlRenderer().render({"texts": texts})
    read = YAML(typ="safe", pure=True).load(data)
    assert ascii(read["texts"]) == ascii(texts)


@pytest.mark.parametrize("text", ["\U0010005b", "x\U0010ffff", "\uffff", "${\u2028}"])
def test_yaml_responses_with_characters_of_hidden_placeholders(text: str) -> None:
    data = data_formats.YamlRenderer().render({text: text})
    assert YAML(typ="safe", pure=True).load(data) == {text: text}


def test_json_of_too_many_values_is_refused(script) -> None:
    for body in ({"label": [0] * 20_001}, [[0] * 300] * 100):
        response = script.post("/admin/tokens", json=body)
        assert response.status_code == 400
        assert "more than 20,000 keys and values" in response.json()["error"]["message"]
