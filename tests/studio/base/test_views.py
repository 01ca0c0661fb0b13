"""Formats, forms, roles and headers of the studio's views."""

import pytest
from ruamel.yaml import YAML

pytestmark = pytest.mark.database

YAML_TYPE = {"Content-Type": "application/yaml"}


def test_resource_is_available_as_json_yaml_and_html(script):
    as_json = script.get("/admin/tokens").json()
    yaml_response = script.get("/admin/tokens", headers={"Accept": "application/yaml"})
    assert yaml_response.headers["Content-Type"].startswith("application/yaml")
    assert YAML(typ="safe").load(yaml_response.text) == as_json
    page = script.get("/admin/tokens", headers={"Accept": "text/html"})
    assert page.headers["Content-Type"].startswith("text/html")
    assert "<title>" in page.text
    assert script.get("/admin/tokens?format=yaml").text == yaml_response.text


def test_body_may_be_json_yaml_or_a_form(script, browser):
    by_json = {"label": "json", "principal": "alice"}
    assert script.post("/admin/tokens", json=by_json).status_code == 201
    by_yaml = "label: yaml # a comment\nprincipal: alice\n"
    response = script.post("/admin/tokens", content=by_yaml, headers=YAML_TYPE)
    assert response.status_code == 201
    page = browser.submit("/admin/tokens", {"label": "form", "principal": "alice"})
    assert page.status_code == 200
    assert "sk-coulisse-" in page.text
    labels = {token["label"] for token in script.get("/admin/tokens").json()["data"]}
    assert labels >= {"json", "yaml", "form"}


def test_form_may_override_the_method(script, browser):
    created = script.post("/admin/tokens", json={"label": "x", "principal": "p"}).json()
    path = f"/admin/tokens/{created['id']}"
    page = browser.submit(path, {"_method": "DELETE"})
    assert page.status_code == 200
    assert "Token &#x27;x&#x27; revoked" in page.text
    assert script.get(path).json()["state"] == "revoked"


def test_refused_form_keeps_its_input(browser):
    typed = {"label": "kept label", "principal": "alice", "limit_usd": "much"}
    page = browser.submit("/admin/tokens", typed)
    assert page.status_code == 400
    assert 'value="kept label"' in page.text
    assert "limit_usd" in page.text
    assert 'role="alert"' in page.text


@pytest.mark.parametrize(
    ("method", "path", "body", "headers", "status", "message"),
    [
        ("POST", "/admin/tokens", b"{", {"Content-Type": "application/json"}, 400, ""),
        ("POST", "/admin/tokens", b"a: [", YAML_TYPE, 400, "1:"),
        ("POST", "/admin/tokens", b"\xff", YAML_TYPE, 400, "UTF-8"),
        ("POST", "/admin/tokens", b"- a list", YAML_TYPE, 400, ""),
        ("POST", "/admin/tokens", b"label: x", YAML_TYPE, 400, "principal"),
        ("POST", "/admin/tokens", b"x", {"Content-Type": "text/csv"}, 415, "text/csv"),
        ("PATCH", "/admin/tokens", b"", {}, 405, "PATCH"),
        ("GET", "/admin/tokens", b"", {"Accept": "image/png"}, 406, ""),
        ("GET", "/admin/tokens?after=x", b"", {}, 400, "after"),
        ("GET", f"/admin/audit?limit={'9' * 5000}", b"", {}, 400, "limit"),
        ("GET", "/admin/tokens/abcd", b"", {}, 404, "abcd"),
        ("GET", "/admin/nowhere", b"", {}, 404, "/admin/"),
        ("POST", "/admin/nowhere", b"", {}, 404, "/admin/"),
    ],
)
def test_errors_share_one_format(script, method, path, body, headers, status, message):
    response = script.request(method, path, content=body, headers=headers)
    assert response.status_code == status
    error = response.json()["error"]
    assert message in error["message"]
    assert error["type"] == "invalid_request_error"


def test_viewer_is_read_only(viewer, operator):
    assert viewer.get("/admin/tokens").status_code == 200
    created = {"label": "x", "principal": "p"}
    refusal_page = viewer.post("/admin/tokens", json=created)
    assert refusal_page.status_code == 403
    assert refusal_page.json()["error"]["code"] == "role_needed"
    page = viewer.get("/admin/tokens", headers={"Accept": "text/html"})
    assert "Create a token" not in page.text
    assert operator.post("/admin/tokens", json=created).status_code == 201


def test_deactivated_account_cannot_read(viewer, operator):
    before = operator.get("/admin/audit?action=account&actor=olga").json()["data"]
    kept_out = operator.put("/admin/accounts/vera", json={"is_active": False})
    assert kept_out.status_code == 200
    refusal_page = viewer.get("/admin/tokens")
    assert refusal_page.status_code == 403
    page = viewer.get("/admin/", headers={"Accept": "text/html"})
    assert page.status_code == 403
    assert "Tokens" not in page.text
    operator.put("/admin/accounts/vera", json={"is_active": True, "role": "operator"})
    assert viewer.post("/admin/tokens", json={}).status_code == 400
    assert (
        operator.put("/admin/accounts/olga", json={"role": "viewer"}).status_code == 400
    )
    assert operator.put("/admin/accounts/nobody", json={}).status_code == 404
    again = {"role": "operator", "is_active": True}
    assert operator.put("/admin/accounts/vera", json=again).json()["role"] == "operator"
    by_whom = operator.get("/admin/audit?action=account&actor=olga").json()["data"]
    fresh = [entry["actor"] for entry in by_whom if entry not in before]
    assert fresh == ["studio: olga"] * 2
    entries = operator.get("/admin/audit?action=account&target=era").json()["data"]
    assert [entry["target"] for entry in entries[:2]] == ["vera"] * 2
    assert operator.get("/admin/audit?target=nobody-of-all").json()["data"] == []


def test_cross_site_form_is_refused(browser, script):
    fields = {"label": "forged", "principal": "p"}
    foreign = {"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"}
    forged = browser.http.post("/admin/tokens", data=fields, headers=foreign)
    assert forged.status_code == 403
    # Of our own site, but of no form.
    response = browser.http.post("/admin/tokens", data=fields)
    assert response.status_code == 403
    assert "Reload its page" in response.text
    labels = {token["label"] for token in script.get("/admin/tokens").json()["data"]}
    assert "forged" not in labels


def test_pages_have_a_script_policy_and_cookie_flags(browser):
    page = browser.get("/admin/")
    # In any order: django-csp builds the policy from a set.
    policy = page.headers["Content-Security-Policy"].split("; ")
    assert "script-src 'self' 'unsafe-eval'" in policy
    assert "frame-ancestors 'none'" in policy
    assert page.headers["X-Frame-Options"] == "DENY"
    assert page.headers["Cache-Control"] == "no-store"
    for script in page.text.split("<script")[1:]:
        assert script.split("</script>")[0].strip().endswith(">")
    for flag in ("HttpOnly", "SameSite=Lax", "Path=/admin/"):
        assert flag in page.headers["Set-Cookie"]


def test_assets_are_local_and_cached(browser, script):
    asset = script.get("/admin/static/studio/components.css")
    assert asset.status_code == 200
    again = script.get(
        "/admin/static/studio/components.css",
        headers={"If-None-Match": asset.headers["ETag"]},
    )
    assert (again.status_code, again.content) == (304, b"")
    page = browser.get("/admin/").text
    assert "https://" not in page.replace("https://www.w3.org", "")
