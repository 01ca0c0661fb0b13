"""The format of a response follows the Accept header."""

import pytest
from ruamel.yaml import YAML

from admin_base.formats import content_negotiation
from tests.studio.site_wide.test_addresses import (
    VIEWS,
    WEBSOCKET_PATH,
)

pytestmark = pytest.mark.database

BROWSERS = "text/html,application/xhtml+xml,application/xml;q=0.9,image/webp,*/*;q=0.8"
JSON, YAML_TYPE, PAGE = "application/json", "application/yaml", "text/html"
PATHS = [
    path
    for path, _, methods in VIEWS
    if "GET" in methods and "somewhat" not in path and path != WEBSOCKET_PATH
]
CHANGING = ("/admin/", "/admin/live", "/admin/spend")
"""Their responses differ with each request."""


def media_type(response) -> str:
    return response.headers["Content-Type"].partition(";")[0]


@pytest.mark.parametrize(
    ("accept", "data"),
    [
        ("*/*", JSON),
        ("", JSON),
        (JSON, JSON),
        ("application/*", JSON),
        (YAML_TYPE, YAML_TYPE),
        ("APPLICATION/YAML", YAML_TYPE),
        (BROWSERS, PAGE),
        ("text/*", PAGE),
        ("application/json;q=0.1, application/yaml;q=0.9", YAML_TYPE),
        ("text/html;q=0.1, application/json;q=0.5", JSON),
        ("application/yaml; charset=utf-8", YAML_TYPE),
        ("*/*;q=0.9, application/yaml;q=0.1, application/json;q=0", PAGE),
        ("*/*, application/yaml", YAML_TYPE),
        ("application/json;q=0, */*", YAML_TYPE),
        ("application/yaml;q=nonsense, application/json;q=0.1", YAML_TYPE),
    ],
)
def test_preferred_format_is_returned(script, accept: str, data: str) -> None:
    response = script.get("/admin/tokens", headers={"Accept": accept})
    assert (response.status_code, media_type(response)) == (200, data)


@pytest.mark.parametrize("accept", ["image/png", "application/json;q=0", "nonsense"])
def test_unsupported_format_is_406(script, accept: str) -> None:
    response = script.get("/admin/tokens", headers={"Accept": accept})
    assert response.status_code == 406
    assert response.json()["error"]["type"] == "invalid_request_error"


def test_query_parameter_selects_the_format(script) -> None:
    response = script.get("/admin/tokens?format=yaml")
    assert media_type(response) == YAML_TYPE
    assert media_type(script.get("/admin/tokens?format=csv")) == "text/csv"
    assert script.get("/admin/live?format=csv").status_code == 406
    assert media_type(script.get("/admin/spend?format=csv")) == "text/csv"
    assert media_type(script.get("/admin/spend", headers={"Accept": "text/csv"})) == (
        "text/csv"
    )


def test_config_defaults_to_yaml(script) -> None:
    assert media_type(script.get("/admin/config")) == YAML_TYPE
    assert media_type(script.get("/admin/config", headers={"Accept": JSON})) == JSON
    assert media_type(script.get("/admin/config", headers={"Accept": BROWSERS})) == PAGE


def test_yaml_equals_json(script) -> None:
    assert len(PATHS) > 20
    wrong = []
    for path in set(PATHS) - {*CHANGING}:
        message = script.get(path, headers={"Accept": JSON}).json()
        text = script.get(path, headers={"Accept": YAML_TYPE}).text
        read = YAML(typ="safe", pure=True).load(text)
        # Of a section that is not there, YAML has nothing to say.
        if read != message and (read or message):
            wrong.append(path)
    assert wrong == []


def test_responses_are_not_cached(script) -> None:
    responses = [
        script.request(method, path, headers={"Accept": accept})
        for path in PATHS
        for method in ("GET", "HEAD", "OPTIONS")
        for accept in (JSON, PAGE)
    ]
    responses += [script.get("/admin/no/such/page"), script.post("/admin/tokens")]
    cached = {
        f"{response.request.method} {response.url}"
        for response in responses
        if response.headers.get("Cache-Control") != "no-store"
    }
    assert cached == set()


def test_head_matches_get(script) -> None:
    for path in PATHS:
        got, head = script.get(path), script.head(path)
        assert (head.status_code, head.content) == (200, b""), path
        assert media_type(head) == media_type(got), path
    assert script.head("/admin/tokens/none").status_code == 404


def test_options_lists_the_methods(script) -> None:
    for path, _, methods in VIEWS:
        if "somewhat" in path or path == WEBSOCKET_PATH:
            continue
        response = script.options(path)
        assert response.status_code == 204, path
        allowed = set(response.headers["Allow"].split(", "))
        assert methods <= allowed <= {*methods, "HEAD", "OPTIONS"}, path
        assert ("HEAD" in allowed) == ("GET" in allowed), path


def test_browser_accept_header_prefers_html() -> None:
    assert content_negotiation.prefers_html(BROWSERS)
    assert not content_negotiation.prefers_html("*/*")
    assert not content_negotiation.prefers_html("application/json, text/html;q=0.1")
    assert not content_negotiation.prefers_html("text/html;q=0")
