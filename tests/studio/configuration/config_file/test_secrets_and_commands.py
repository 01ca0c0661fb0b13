"""Secrets are masked, and commands cannot be added by default."""

import pytest

from config.editing.secret_masks import MASK
from tests.studio.configuration.config_file.file_requests import (
    AS_YAML,
    WANTS_YAML,
    error_of,
)
from tests.studio.conftest import Browser

pytestmark = pytest.mark.database


def test_secrets_are_masked_in_every_format(script, yaml):
    browser = Browser(str(script.base_url))
    for path in [
        "config",
        "config/edit",
        "providers",
        "providers/openai",
        "mcp",
        "mcp/files",
        "settings",
        "settings/providers",
        "settings/mcp",
    ]:
        for response in (
            script.get(f"/admin/{path}"),
            script.get(f"/admin/{path}", headers=WANTS_YAML),
            browser.get(f"/admin/{path}"),
        ):
            assert response.status_code == 200, path
            for secret in ("sk-openai", "sk-anthropic", "env-secret"):
                assert secret not in response.text, path
    browser.http.close()


def test_masked_file_can_be_sent_back(script, yaml, text):
    current = script.get("/admin/config")
    assert current.headers["Content-Type"].startswith("application/yaml")
    assert current.text == text.replace(
        "sk-openai-q7Vd2mXw9Lr4TzK8bNf3HcYs", MASK
    ).replace("sk-anthropic-9Rk3ZpQ8wXv5LmT2dHs7YgCb", MASK).replace("env-secret", MASK)
    sent = script.put("/admin/config", content=current.text.encode(), headers=AS_YAML)
    assert sent.status_code == 200
    data = script.get("/admin/config", headers={"Accept": "application/json"}).json()
    assert script.put("/admin/config", json=data).status_code == 200
    for path in ("providers", "mcp", "providers/openai", "mcp/files"):
        body = script.get(f"/admin/{path}").json()
        assert script.put(f"/admin/{path}", json=body).status_code == 200
    assert yaml.read_text() == text


def test_mask_without_a_secret_is_refused(script, yaml, text):
    response = script.put(
        "/admin/providers/openai",
        content=f"api_key: {MASK}\nheaders: {{X: {MASK}}}\n".encode(),
        headers=AS_YAML,
    )
    assert response.status_code == 422
    assert "providers.openai.headers.X" in error_of(response)["message"]
    assert yaml.read_text() == text


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("mcp/files", {"command": "sh", "args": ["-c", "evil"]}),
        ("mcp/files", {"command": "uvx", "args": ["files"], "env": {"A": "b"}}),
        ("mcp", {"files": {"command": "sh"}}),
        ("settings/sidecars", [{"name": "s", "command": "sh"}]),
        ("settings/studio", {"allow_commands": True}),
    ],
)
def test_commands_cannot_be_added_by_default(script, yaml, text, path, body):
    response = script.put(f"/admin/{path}", json=body)
    assert response.status_code == 403
    assert "studio: {allow_commands: true}" in error_of(response)["message"]
    assert yaml.read_text() == text


@pytest.mark.parametrize(
    "more",
    [
        "studio: {allow_commands: true}\n",
        "sidecars: [{name: s, command: sh}]\n",
    ],
)
def test_commands_cannot_be_added_in_the_whole_file(script, yaml, text, more):
    body = f"{text}{more}".encode()
    response = script.put("/admin/config", content=body, headers=AS_YAML)
    assert response.status_code == 403
    assert "changed only in the file" in " ".join(response.text.split())
    assert yaml.read_text() == text


def test_mcp_command_can_be_added_when_allowed(script, yaml, text):
    new = {"name": "more", "command": "uvx"}
    assert script.post("/admin/mcp", json=new).status_code == 403
    yaml.write_text(text + "studio: {allow_commands: true}\n")
    assert script.post("/admin/mcp", json=new).status_code == 201
    assert script.get("/admin/mcp/more").json() == {"command": "uvx"}
