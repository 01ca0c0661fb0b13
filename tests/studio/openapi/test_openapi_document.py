"""The OpenAPI document: valid, complete, and suitable for client generators."""

import importlib
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import jsonschema
import pytest
from django.conf import settings
from drf_spectacular.drainage import GENERATOR_STATS
from drf_spectacular.generators import SchemaGenerator
from openapi_spec_validator import validate

from studio.base.navigation import GROUPS
from studio.openapi.document import iterate_operations

pytestmark = pytest.mark.database

UNTYPED_FIELDS = {
    "AgentConfig.extra_body",
    "AgentsAgentConfigYaml.extra_body",
    "AuditLogEntry.details",
    "ConfigJsonSchema.$defs.*",
    "ConfigJsonSchema.properties.*",
    "ExportedMessage.content",
    "ExportedState.state",
    "SafetyDetectorYaml.json_schema",
    "SafetyDetectorYaml.regex",
    "SafetyModerationConfigYaml.scores",
    "SafetySafetyCheckYaml.actions",
    "SafetySafetyCheckYaml.levels",
    "SearchResultList.explain",
    "MemorySearchResult.explain",
    "MessageSearchResult.explain",
    "JsonValue",
    "JudgeConfig.rubrics",
    "JudgesJudgeConfigYaml.rubrics",
    "McpTool.parameters",
    "MemoryChange.after",
    "MemoryChange.before",
    "PersonaConfig.extra_body",
    "SmokeTestsPersonaConfigYaml.extra_body",
    "StoredState.state",
}
"""Fields with data of others: model and tool parameters, parts of messages, states of
agents, details of the audit and of a fact's history, and JSON Schemas."""
GENERATOR = Path(sys.executable).with_name("openapi-python-client")


@pytest.fixture(scope="module")
def component_schemas() -> dict[str, list]:
    """Every generated schema, by name."""
    return {}


@pytest.fixture(scope="module")
def document(component_schemas: dict[str, list]) -> dict:
    GENERATOR_STATS.reset()
    generator = SchemaGenerator(urlconf=settings.COULISSE_STUDIO_URLCONF)
    register = generator.registry.register_on_missing

    def record(component) -> None:
        component_schemas.setdefault(component.name, []).append(component.schema)
        register(component)

    generator.registry.register_on_missing = record
    return generator.get_schema(request=None, public=True)


def test_openapi_document_is_valid_and_served(script) -> None:
    data = script.get("/admin/openapi.json")
    assert data.headers["Content-Type"].startswith("application/vnd.oai.openapi+json")
    assert data.json()["openapi"].startswith("3.1")
    validate(data.json())


def test_openapi_document_is_available_as_json_and_yaml(script) -> None:
    plain = script.get("/admin/openapi.json", headers={"Accept": "application/json"})
    assert plain.json()["openapi"].startswith("3.1")
    yaml = script.get("/admin/openapi.json", headers={"Accept": "application/yaml"})
    assert yaml.text.startswith("openapi: 3.1")


def test_openapi_generation_has_no_warnings(document: dict) -> None:
    assert list(GENERATOR_STATS._error_cache) == []
    assert list(GENERATOR_STATS._warn_cache) == []


def test_every_operation_has_a_summary(document: dict) -> None:
    for path, method, operation in iterate_operations(document):
        place = f"{method} {path}"
        assert operation.get("summary"), place
        assert operation["tags"][0] in {*GROUPS, "Home"}, place
        assert {"password": []} in operation["security"], place
        assert {"session": []} in operation["security"], place
        assert "403" in operation["responses"], place
        done = [int(code) for code in operation["responses"] if code < "300"]
        assert done, place
        for code in done:
            content = operation["responses"][str(code)].get("content", {})
            assert code == 204 or content, place
            assert "text/html" not in content, place


def test_operation_ids_are_unique(document: dict) -> None:
    names = Counter(
        operation["operationId"] for *_, operation in iterate_operations(document)
    )
    assert [name for name, count in names.items() if count > 1] == []
    assert [name for name in names if name[-1].isdigit()] == []


def test_operation_ids_name_their_action(document: dict) -> None:
    names = {operation["operationId"] for *_, operation in iterate_operations(document)}
    assert {
        "agents_list",
        "agents_create",
        "agents_retrieve",
        "agents_reset",
        "tasks_cancel",
        "tasks_retry",
        "tokens_revoke",
        "triggers_run",
        "smoke_run",
        "smoke_runs_list",
        "smoke_runs_cancel",
        "judges_score_past",
        "settings_limits_show",
        "settings_limits_write",
        "telemetry_write",
        "mcp_create",
        "mcp_update",
        "mcp_check",
        "config_check",
        "users_facts_list",
    } <= names
    assert [name for name in names if "_one" in name.replace("_check_one", "")] == []


def test_response_bodies_have_schemas(document: dict) -> None:
    free = {
        location
        for name, schema in document["components"]["schemas"].items()
        for location in _untyped_fields(schema, name)
    }
    for path, method, operation in iterate_operations(document):
        for data in (
            operation.get("requestBody", {}),
            *operation["responses"].values(),
        ):
            for body in data.get("content", {}).values():
                free |= {*_untyped_fields(body["schema"], f"{method} {path}")}
    assert free == UNTYPED_FIELDS


def _untyped_fields(schema: dict, location: str) -> Iterator[str]:
    """Yield the fields that allow any value."""
    words = {"$ref", "anyOf", "oneOf", "allOf", "enum", "const", "type"}
    is_map = schema.get("type") == "object" and "properties" not in schema
    if not words & schema.keys() or (is_map and not schema.get("additionalProperties")):
        yield location
    more = schema.get("additionalProperties")
    if more is True:
        yield location
    below = {**schema.get("properties", {})}
    below |= {"*": more} if isinstance(more, dict) else {}
    below |= {"[]": schema["items"]} if "items" in schema else {}
    for name, each in below.items():
        yield from _untyped_fields(
            each, f"{location}.{name}" if name != "[]" else location
        )
    for word in ("anyOf", "oneOf", "allOf"):
        for each in schema.get(word, []):
            yield from _untyped_fields(each, location)


def test_every_error_response_is_described(document: dict) -> None:
    for path, method, operation in iterate_operations(document):
        place, data = f"{method} {path}", operation["responses"].keys()
        assert {"401", "403", "406", "503"} <= data, place
        assert "{" not in path or "404" in data, place
        assert "requestBody" not in operation or {"400", "415"} <= data, place
        assert not operation.get("parameters") or "400" in data, place
        for status in (code for code in data if code >= "400"):
            content = operation["responses"][status]["content"]["application/json"]
            assert content["schema"]["$ref"].endswith("/ErrorResponse"), place


def test_conflict_responses_are_described(document: dict) -> None:
    refused = {
        status: {
            (method, path)
            for path, method, operation in iterate_operations(document)
            if status in operation["responses"]
        }
        for status in ("409", "422")
    }
    assert refused["409"] - refused["422"] == {
        ("post", "/admin/sidecars/{name}/restart"),
        ("post", "/admin/tasks/{id}/retry"),
        ("post", "/admin/trigger-runs/{id}/retry"),
        ("post", "/admin/triggers/{name}/run"),
        ("post", "/admin/users/{user}/facts/{id}/accept"),
        ("post", "/admin/users/{user}/facts/{id}/reject"),
    }
    assert refused["422"] <= refused["409"]
    kinds = ("agents", "experiments", "judges", "smoke")
    changes = {
        *(("post", f"/admin/{kind}") for kind in (*kinds, "mcp", "providers")),
        *(("post", f"/admin/{kind}/{{name}}/reset") for kind in kinds),
        ("post", "/admin/tokens/enable"),
    }
    assert {each for each in refused["422"] if each[0] == "post"} == changes
    for method, path in refused["422"] - changes:
        assert method in ("put", "delete"), path
        assert path.split("/")[2] not in ("accounts", "tokens", "users"), path
    for path, method, operation in iterate_operations(document):
        if method == "put" and "/accounts/" not in path:
            assert "422" in operation["responses"], path


def test_schema_names_are_unique(document: dict, component_schemas: dict) -> None:
    assert component_schemas
    for name, ones in component_schemas.items():
        data = [one for one in ones if one is not None]
        assert all(one == data[0] for one in data), name


def test_responses_match_their_schemas(document: dict, script, client, user) -> None:
    chat = [{"role": "user", "content": "Hello!"}]
    client.chat.completions.create(
        model="assistant", messages=chat, safety_identifier=user
    )
    data = {
        path: script.get(path)
        for path, method, _ in iterate_operations(document)
        if method == "get" and "{" not in path
    }
    problems = [
        f"{path}: {problem.json_path}: {problem.message[:200]}"
        for path, response in data.items()
        for problem in _problems(document, document["paths"][path]["get"], response)
    ]
    assert problems == []
    assert len(data) >= 20


def _problems(document: dict, operation: dict, response) -> Iterator:
    assert response.status_code == 200, response.url
    content = operation["responses"]["200"]["content"]
    if "json" in response.headers["Content-Type"]:
        schema = content["application/json"]["schema"]
        whole = {**schema, "components": document["components"]}
        yield from jsonschema.Draft202012Validator(whole).iter_errors(response.json())


def test_generated_client_works(
    script, server: str, tmp_path: Path, monkeypatch
) -> None:
    (tmp_path / "openapi.json").write_bytes(script.get("/admin/openapi.json").content)
    (tmp_path / "config.yml").write_text("post_hooks: []\n")
    process = subprocess.run(
        [
            GENERATOR,
            "generate",
            "--path",
            "openapi.json",
            "--meta",
            "none",
            "--config",
            "config.yml",
            "--output-path",
            "coulisse_studio",
        ],
        cwd=tmp_path,
        env={**os.environ, "COLUMNS": "200"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert process.returncode == 0, process.stdout + process.stderr
    output = process.stdout + process.stderr
    # The generator does not support YAML and does not need it.
    assert output.count("WARNING") == output.count(
        "Unsupported content type application/y"
    )
    monkeypatch.syspath_prepend(tmp_path)
    studio = importlib.import_module("coulisse_studio")
    build = "coulisse_studio.api.build"
    agents_list = importlib.import_module(f"{build}.agents_list")
    agents_update = importlib.import_module(f"{build}.agents_update")
    agents_retrieve = importlib.import_module(f"{build}.agents_retrieve")
    agents_destroy = importlib.import_module(f"{build}.agents_destroy")
    models = importlib.import_module("coulisse_studio.models")

    with studio.Client(base_url=server, verify_ssl=False) as http:
        listed = agents_list.sync(client=http)
        assert "assistant" in [agent.name for agent in listed.data]

        body = models.AgentConfig.from_dict(
            {"name": "assistant", "provider": "openai", "model": "gpt-generated"}
        )
        saved = agents_update.sync(client=http, name="assistant", body=body)
        assert saved.label == "override"
        assert saved.config.model == "gpt-generated"

        late = agents_update.sync_detailed(
            client=http, name="assistant", body=body, version=0
        )
        assert late.status_code == 409
        assert isinstance(late.parsed, models.ErrorResponse)

        body.provider = "nobody"
        problems = agents_update.sync_detailed(client=http, name="assistant", body=body)
        assert problems.status_code == 422
        assert "nobody" in problems.parsed.error.problems[0].message

        missing = agents_retrieve.sync_detailed(client=http, name="no-one")
        assert missing.status_code == 404
        assert "no-one" in missing.parsed.error.message

        reset = importlib.import_module(f"{build}.agents_reset")
        assert reset.sync(client=http, name="assistant").label == "yaml"
        deleted = agents_destroy.sync(client=http, name="assistant")
        assert deleted.label == "tombstoned"
        reset.sync(client=http, name="assistant")
