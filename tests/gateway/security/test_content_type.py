"""`Content-Type` headers: accepted values, and charsets without effect."""

import encodings

import httpx2
import pytest

from gateway.request_validation.text_encoding import MAX_CONTENT_TYPE_BYTES

PLACES = ("/v1/chat/completions", "/v1/nowhere", "/mcp", "/hooks/any", "/admin/agents")


@pytest.fixture
def http(server: str):
    with httpx2.Client(base_url=server, timeout=60, verify=False) as client:
        yield client


@pytest.mark.database
@pytest.mark.parametrize("path", PLACES)
def test_long_content_type_is_refused_before_it_is_parsed(http, path: str) -> None:
    # Python's parser takes seconds for 60,000 of these.
    kind = 'text/plain; x="' + ";" * MAX_CONTENT_TYPE_BYTES
    answer = http.post(path, content=b"{}", headers={"Content-Type": kind})
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert error["message"].startswith("The header Content-Type is longer than")
    assert error["param"] == "Content-Type"


@pytest.mark.database
@pytest.mark.parametrize("path", PLACES)
def test_encoded_content_type_parameter_is_refused(http, path: str) -> None:
    kind = "application/json; charset*=nonsense'en'x"
    answer = http.post(path, content=b"{}", headers={"Content-Type": kind})
    assert answer.status_code == 400
    assert "RFC 2231" in answer.json()["error"]["message"]


@pytest.mark.parametrize("path", ["/v1/mod%00els", "/v1/models?a=%00", "/hooks/%00"])
def test_url_with_a_nul_is_refused(http, path: str) -> None:
    answer = http.get(path)
    assert answer.status_code == 400
    assert "NUL" in answer.json()["error"]["message"]


def test_unknown_charsets_are_not_looked_up(http) -> None:
    # Python caches each codec name for the life of the process.
    kind = {"Content-Type": "application/json; charset=nobody-has-this"}
    http.post("/v1/chat/completions", content=b"{}", headers=kind)
    stored = {name.replace("-", "_") for name in encodings._cache}
    assert "nobody_has_this" not in stored
