"""Requests no form of the studio sends are refused with 4xx, and never fail."""

import json
from urllib.parse import quote

import pytest

from studio.base import formats
from tests.studio.test_every_address import FACES, with_bodies

pytestmark = pytest.mark.database

FORM = "application/x-www-form-urlencoded"
LATE = "9999-12-31T23:59:59.999999-23:59"
EARLY = "0001-01-01T00:00:00+23:59"
UUID = "00000000-0000-0000-0000-000000000000"


@pytest.mark.parametrize("accept", ["text/html", "application/json"])
def test_options_names_the_methods_and_has_no_body(script, accept: str) -> None:
    wrong = {}
    for path, _, methods in FACES:
        answer = script.options(path, headers={"Accept": accept})
        allowed = set(answer.headers.get("Allow", "").split(", "))
        is_empty = answer.status_code == 204 and not answer.content
        # As it says to a GET: of a name there is not, and of what is no page.
        is_refused = answer.status_code in (404, 406)
        if not (is_empty or is_refused) or not methods <= allowed:
            wrong[path] = (answer.status_code, allowed, answer.text[:100])
    assert wrong == {}
    known = script.options("/admin/agents/assistant", headers={"Accept": accept})
    assert (known.status_code, known.content) == (204, b"")


def test_options_cannot_be_a_form_method(browser) -> None:
    answer = browser.submit("/admin/agents", {"_method": "OPTIONS"}, of="/admin/tokens")
    assert answer.status_code in (204, 405)


@pytest.mark.parametrize("place", ["agents/a%00b", "users/a%00b/facts", "tasks/%00"])
def test_nul_in_a_path_is_refused(script, place: str) -> None:
    answer = script.get(f"/admin/{place}")
    assert answer.status_code == 400
    assert "NUL" in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    "query", ["users?q=a%00b", "audit?after=%00", "tables/memory/fact/?q=%00"]
)
def test_nul_in_a_query_is_refused(script, query: str) -> None:
    answer = script.get(f"/admin/{query}")
    assert answer.status_code == 400
    assert "NUL" in answer.json()["error"]["message"]


@pytest.mark.parametrize("charset", ["unicode_escape", "utf-7", "idna", "zlib"])
def test_query_is_utf8_despite_another_charset(script, charset: str) -> None:
    kind = {"Content-Type": f"text/plain; charset={charset}"}
    for path in ("/admin/users", "/admin/accounts", "/admin/tables/memory/fact/"):
        answer = script.get(f"{path}?q=%5Cud800", headers=kind)
        assert answer.status_code == 200, path


@pytest.mark.parametrize("charset", ["unicode_escape", "utf-16", "zlib"])
@pytest.mark.parametrize("kind", [FORM, "multipart/form-data; boundary=x"])
def test_form_is_utf8_despite_another_charset(script, kind: str, charset: str) -> None:
    body = b"yaml=%5Cud800"
    if kind != FORM:
        head = b'--x\r\nContent-Disposition: form-data; name="yaml"\r\n\r\n'
        body = head + b"\\ud800\r\n--x--\r\n"
    headers = {"Content-Type": f"{kind}; charset={charset}"}
    answer = script.post("/admin/agents", content=body, headers=headers)
    assert answer.status_code == 422  # It is read as the six characters it is.


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
    answer = script.request(
        method, f"/admin/{path}", content=head + b"c\r\n--x--\r\n", headers=kind
    )
    assert answer.status_code == 400
    assert "form" in answer.text


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE"])
def test_form_with_another_method_is_checked(script, method: str) -> None:
    for path in ("agents/a", "telemetry", "users/a/facts"):
        answer = script.request(
            method,
            f"/admin/{path}",
            content=b"yaml=a%00b",
            headers={"Content-Type": FORM},
        )
        assert answer.status_code == 400, path
        assert "NUL" in answer.json()["error"]["message"]


@pytest.mark.parametrize("body", [b"yaml=a%00b", b"yaml%00=a", b"_method=%00"])
def test_nul_in_a_form_is_refused(script, body: bytes) -> None:
    for path in ("/admin/agents", "/admin/tokens", "/admin/users/a/facts"):
        answer = script.post(path, content=body, headers={"Content-Type": FORM})
        assert answer.status_code == 400, path
        assert "NUL" in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    ("value", "names"),
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
def test_json_that_cannot_be_stored_is_refused(script, value: str, names: str) -> None:
    headers = {"Content-Type": "application/json"}
    for method, path in sorted(with_bodies()):
        for body in (value, f'{{"name": {value}}}', f"[{value}]"):
            answer = script.request(method, path, content=body, headers=headers)
            assert answer.status_code in (400, 404), (method, path, answer.text)
    assert with_bodies()
    answer = script.post("/admin/tokens", content=value, headers=headers)
    assert names in answer.json()["error"]["message"]


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
    answer = script.post("/admin/tokens", content=text, headers=headers)
    assert answer.status_code == 400, answer.text
    entry = f"name: x\nprovider: openai\nmodel: gpt-test\npreamble: {value}\n"
    answer = script.post("/admin/agents", content=entry, headers=headers)
    assert answer.status_code in (400, 422), answer.text
    text = f"openai: {value}\n"
    answer = script.put("/admin/providers", content=text, headers=headers)
    assert answer.status_code in (400, 422), answer.text


LISTS = (
    *(
        "audit",
        "judges/quality/past-replies",
        "mcp/notes/connections",
        "smoke/runs",
        "tasks",
    ),
    *("tokens", "turns", "users", "users/ana/facts", "users/ana/messages"),
    *("users/ana/scores", "users/ana/threads", "users/ana/turns"),
)


@pytest.mark.parametrize("at", [LATE, EARLY, "2026-01-01T00:00:00+00:00"])
@pytest.mark.parametrize("key", [UUID, "1", "9223372036854775808", "-1", "9" * 5000])
def test_invalid_page_positions_are_refused(script, at: str, key: str) -> None:
    for path in LISTS:
        answer = script.get(f"/admin/{path}?after={quote(f'{at}~{key}')}")
        assert answer.status_code < 500, (path, answer.text)
        if at in (LATE, EARLY) and answer.status_code != 404:
            assert answer.status_code in (200, 400), path


@pytest.mark.parametrize(
    "query",
    [
        *("_to_field=x", "_to_field=", "p=99999999999999999999", "p=-1", "o=9.9"),
        *("pk=9223372036854775808", "id__exact=x", "nothing__there=1", "q=%ED%A0%80"),
        *("_changelist_filters=%00", "_changelist_filters=%ED%A0%80", "e=1", "all="),
    ],
)
def test_tables_refuse_invalid_queries(script, query: str) -> None:
    for table in ("access/token", "memory/message", "config/override"):
        for rest in ("", "1/", "1/change/", "1/delete/", "1/history/", "add/"):
            answer = script.get(f"/admin/tables/{table}/{rest}?{query}")
            assert answer.status_code < 500, (table, rest, answer.text[:300])


def test_table_query_suspicious_to_django_is_400_in_both_formats(script) -> None:
    address = "/admin/tables/memory/storedmessage/?_to_field=x"
    told = script.get(address, headers={"Accept": "application/json"})
    assert told.status_code == 400
    assert told.json()["error"]["type"] == "invalid_request_error"
    page = script.get(address, headers={"Accept": "text/html"})
    assert page.status_code == 400
    assert "<h1>" in page.text


def test_wide_integers_are_accepted_or_refused(script) -> None:
    body = json.dumps({"label": "x", "principal": "y", "limit_usd": 2**31})
    headers = {"Content-Type": "application/json"}
    answer = script.post("/admin/tokens", content=body, headers=headers)
    assert answer.status_code in (201, 400), answer.text


def test_large_yaml_responses_are_json() -> None:
    small, large = {"a": ["b\nc"] * 10}, {"a": [{"b": "c"}] * 20_000}
    told = formats.YamlRenderer().serialize(small, {})
    assert told.startswith("a:\n- |")
    told = formats.YamlRenderer().serialize(large, {})
    assert json.loads(told) == large


def test_json_of_too_many_values_is_refused(script) -> None:
    for body in ({"label": [0] * 20_001}, [[0] * 300] * 100):
        answer = script.post("/admin/tokens", json=body)
        assert answer.status_code == 400
        assert "more than 20,000 keys and values" in answer.json()["error"]["message"]
