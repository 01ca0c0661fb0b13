"""`import litellm`: the configuration of LiteLLM's proxy becomes a coulisse.yaml."""

import hashlib
import json
import re
import uuid
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.db import OperationalError
from django.db.models import QuerySet
from ruamel.yaml import YAML

from access.models import ApiToken, AuditEntry
from config.loading import loader

pytestmark = [pytest.mark.database, pytest.mark.usefixtures("database")]

CONFIG = """
environment_variables:
  LANGFUSE_SECRET_KEY: sk-lf-clear-text-1
  OPENAI_API_KEY: sk-proj-clear-text-9
credential_list:
  - credential_name: eu
    credential_values: {api_key: os.environ/AZURE_EU_KEY, api_base: "https://eu.azure.com/"}
model_list:
  - model_name: gpt-4o
    litellm_params: &azure
      model: azure/gpt-4o-eu
      litellm_credential_name: eu
      api_version: "2024-05-01-preview"
      rpm: 300
      timeout: 60
    model_info: {id: "1", base_model: azure/gpt-4o, max_input_tokens: 128000}
  - model_name: gpt-4o
    litellm_params:
      <<: *azure
      litellm_credential_name:
      api_base: https://us.azure.com
      api_key: 0123456789abcdef0123456789abcdef
      rpm: 900
  - model_name: gpt-4o
    litellm_params: {model: openai/gpt-4o, api_key: os.environ/OPENAI_API_KEY}
  - model_name: gpt-4o-mini
    litellm_params: {model: gpt-4o-mini, temperature: 0.2, aws_region_name: eu-1}
  - model_name: claude
    litellm_params:
      model: anthropic/claude-sonnet-4-5
      api_key: os.environ/ANTHROPIC_API_KEY
      max_tokens: 4096
      seed: 7
      max_budget: 100
      budget_duration: 7d
  - model_name: local
    litellm_params:
      model: hosted_vllm/Qwen/Qwen2.5-7B
      api_base: http://vllm:8000/v1
      api_key: none
      top_k: 20
      extra_headers: {X-Team: support, X-Api-Token: very-secret-header}
      input_cost_per_token: 0.0000005
      output_cost_per_token: 0.0000015
      num_retries: 12
  - model_name: "anthropic/*"
    litellm_params: {model: "anthropic/*", api_key: os.environ/ANTHROPIC_API_KEY}
  - model_name: bedrock-claude
    litellm_params: {model: bedrock/anthropic.claude-v2, aws_region_name: us-east-1}
  - model_name: embed
    litellm_params: {model: text-embedding-3-small, api_key: sk-proj-clear-text-2}
    model_info: {mode: embedding}
router_settings:
  routing_strategy: latency-based-routing
  num_retries: 3
  timeout: 30
  allowed_fails: 2
  cooldown_time: 60
  fallbacks:
    - gpt-4o: [claude, anthropic/claude-haiku-4-5, ghost]
    - claude: [gpt-4]
  model_group_alias: {gpt-4: gpt-4o, hidden: {model: claude, hidden: true}}
litellm_settings:
  num_retries: 9
  drop_params: true
  cache: true
  cache_params: {type: redis, password: redis-clear-text-3}
  context_window_fallbacks: [{gpt-4o-mini: [gpt-4o]}]
  default_fallbacks: [gpt-4o-mini]
general_settings:
  master_key: sk-1234-clear-text-4
  database_url: postgresql://u:clear-text-5@db/litellm
mcp_servers:
  github:
    url: https://example.com/mcp
    auth_type: bearer_token
    auth_value: ghp-clear-text-6
  tools:
    transport: stdio
    command: npx
    args: ["-y", "@x/y", "--api-key=clear-text-8-and-more"]
    env: {TOOL_KEY: clear-text-7}
guardrails: [{guardrail_name: presidio}]
"""
VARIABLES = re.compile(r"\$\{(\w+)\}")


@pytest.fixture
def convert(tmp_path: Path):
    """Run the command; return its report, and the data of the new file."""

    def convert(text=CONFIG, *arguments, keys=None):
        source = tmp_path / "config.yaml"
        source.write_text(text)
        words = [*arguments]
        if keys is not None:
            (tmp_path / "keys.json").write_text(json.dumps(keys))
            words += ["--keys", str(tmp_path / "keys.json")]
        out = StringIO()
        yaml = str(tmp_path / "coulisse.yaml")
        words = ["litellm", str(source), "--json", "-c", yaml, *words]
        call_command("import", *words, stdout=out)
        written = tmp_path / "coulisse.yaml"
        data = YAML(typ="safe").load(written.read_text()) if written.exists() else {}
        return json.loads(out.getvalue()), data

    return convert


def agent(data, name):
    return next(each for each in data["agents"] if each["name"] == name)


def minimal(model="gpt-4o-mini", settings="", **params):
    params = json.dumps({"model": model, **params})
    return f"model_list: [{{model_name: m, litellm_params: {params}}}]\n{settings}"


# The file


def test_written_file_is_valid_and_has_no_secret(convert, tmp_path, monkeypatch):
    report, _ = convert()
    content = (tmp_path / "coulisse.yaml").read_text()
    for text in (content, json.dumps(report)):
        assert "clear-text" not in text
        assert "0123456789abcdef" not in text
        assert "very-secret" not in text
    for name in VARIABLES.findall(content):
        monkeypatch.setenv(name, "https://example.com")
    config = loader.parse_config(content.encode(), tmp_path / "coulisse.yaml")
    assert len(config.values["agents"]) == 7
    assert "gpt-4" in config.values["agents"]


def test_report_has_variables_and_everything_without_counterpart(convert):
    report, _ = convert()
    notes = "\n".join(report["notes"])
    assert (
        "set these environment variables as for LiteLLM: ANTHROPIC_API_KEY, "
        "AZURE_EU_KEY\n" in notes
    )
    assert "OPENAI_API_KEY to the value of environment_variables.OPENAI_API" in notes
    assert "LANGFUSE" not in notes
    assert (
        "variable AZURE_API_KEY to the value of model_list[1].litellm_params" in notes
    )
    assert "variable TOOL_KEY to the value of mcp_servers.tools.env.TOOL_KEY" in notes
    assert set(report["no_counterpart"]) == {
        "fallbacks.gpt-4o",
        "general_settings.database_url",
        "guardrails",
        "litellm_settings.cache",
        "litellm_settings.cache_params",
        "model_list[3].litellm_params.aws_region_name",
        "model_list[4].litellm_params.max_budget",
        "model_list[4].litellm_params.seed",
        "model_list[6].model_name",
    }
    assert {each["examples"][0]: each["reason"] for each in report["skipped"]} == {
        "bedrock-claude (model_list[7])": "there is no kind of provider for "
        "'bedrock'; if it has an API like OpenAI's, set api_base and write openai/ "
        "before the model",
        "embed (model_list[8])": "a model for embedding is no agent",
    }
    assert report["counts"]["models"] == {
        "read": 9,
        "written": 7,
        "existing": 0,
        "skipped": 2,
    }


def test_deployments_of_one_model_are_endpoints_by_weight(convert):
    _, data = convert()
    assert data["providers"]["azure"] == {
        "kind": "openai",
        "retries": 3,
        "timeouts": {"total_seconds": 60},
        "breaker": {"failures": 3, "open_seconds": 60, "max_open_seconds": 60},
        "balance": "latency",
        "limits": {"requests_per_minute": 1200, "queue": 0},
        "endpoints": [
            {
                "api_key": "${AZURE_EU_KEY}",
                "base_url": "https://eu.azure.com/openai/v1",
            },
            {
                "api_key": "${AZURE_API_KEY}",
                "base_url": "https://us.azure.com/openai/v1",
                "weight": 3,
            },
        ],
    }
    assert agent(data, "gpt-4o") == {
        "name": "gpt-4o",
        "provider": "azure",
        "model": "gpt-4o-eu",
        "context_window": 128000,
        "fallbacks": [
            {"provider": "openai", "model": "gpt-4o"},
            "claude",
            "anthropic/claude-haiku-4-5",
        ],
        "unknown_parameters": "drop",
    }


def test_models_have_their_own_settings(convert):
    _, data = convert()
    local = agent(data, "local")
    assert local["extra_body"] == {"top_k": 20}
    assert local["fallbacks"] == ["gpt-4o-mini"]
    provider = data["providers"][local["provider"]]
    assert provider["retries"] == 10
    assert provider["api_key"] == "none"
    assert provider["headers"] == {
        "X-Team": "support",
        "X-Api-Token": "${X_API_TOKEN}",
    }
    price = {"input": 0.5, "output": 1.5}
    assert data["prices"] == {local["provider"]: {"Qwen/Qwen2.5-7B": price}}
    assert agent(data, "gpt-4o-mini")["temperature"] == 0.2
    assert agent(data, "claude")["max_tokens"] == 4096
    assert data["limits"] == [
        {"per": "agent", "name": "claude", "usd_per_day": 14.285714}
    ]


def test_aliases_and_patterns_become_agents(convert):
    _, data = convert()
    alias = agent(data, "gpt-4")
    assert {**alias, "name": "gpt-4o"} == agent(data, "gpt-4o")
    assert agent(data, "hidden")["model"] == "claude-sonnet-4-5"
    assert agent(data, "anthropic/claude-haiku-4-5")["model"] == "claude-haiku-4-5"
    _, data = convert(CONFIG, "--model", "anthropic/claude-opus-4-1", "--force")
    assert agent(data, "anthropic/claude-opus-4-1")["provider"] == "anthropic"


def test_server_is_as_open_and_as_forgetful_as_before(convert):
    _, data = convert()
    assert data["auth"] == {"proxy": {"tokens": {}}}
    assert "users" not in data
    _, data = convert(minimal(), "--force")
    assert data["users"] == "shared"
    assert data["history"] == "none"


def test_mcp_servers_keep_their_headers_as_variables(convert):
    _, data = convert()
    assert data["mcp"] == {
        "github": {
            "url": "https://example.com/mcp",
            "headers": {"Authorization": "Bearer ${GITHUB_TOKEN}"},
            "oauth": False,
        },
        "tools": {
            "command": "npx",
            "transport": "stdio",
            "args": ["-y", "@x/y", "${MCP_TOOLS_ARGS_3}"],
            "env": {"TOOL_KEY": "${TOOL_KEY}"},
        },
    }


ADDRESSES = {
    "openai": ("gpt-4o", {}, "openai", None, "gpt-4o"),
    "ollama": ("ollama/llama3", {}, "openai", "http://localhost:11434/v1", "llama3"),
    "ollama at": (
        "ollama_chat/llama3",
        {"api_base": "http://gpu:11434/"},
        *("openai", "http://gpu:11434/v1", "llama3"),
    ),
    "azure by variable": (
        "azure/o_series/o3",
        {},
        *("openai", "${AZURE_API_BASE}/openai/v1", "o3"),
    ),
    "base by variable": (
        "openai/x",
        {"api_base": "os.environ/BASE"},
        *("openai", "${BASE}", "x"),
    ),
    "anthropic": (
        "claude-3",
        {"api_base": "https://a.example.com/v1/messages"},
        *("anthropic", "https://a.example.com", "claude-3"),
    ),
    "gemini": ("gemini/g", {"api_base": "https://x.com"}, "gemini", None, "g"),
    "hosted": ("mistral/m", {}, "openai", "https://api.mistral.ai/v1", "m"),
    "own provider": (
        "org/model",
        {"custom_llm_provider": "openai", "api_base": "http://h/v1"},
        *("openai", "http://h/v1", "org/model"),
    ),
    "slashes": (
        "org/model",
        {"api_base": "http://h/v1"},
        "openai",
        "http://h/v1",
        "org/model",
    ),
}


@pytest.mark.parametrize(
    ("model", "params", "kind", "base_url", "name"), ADDRESSES.values(), ids=ADDRESSES
)
def test_addresses_of_providers(convert, model, params, kind, base_url, name):
    _, data = convert(minimal(model, **params))
    (provider,) = data["providers"].values()
    assert provider["kind"] == kind
    assert provider.get("base_url") == base_url
    assert agent(data, "m")["model"] == name


def test_text_like_a_placeholder_is_kept(convert, tmp_path):
    convert(minimal(extra_headers={"X-Team": "${HOME}"}, stop=["${PATH}"]))
    content = (tmp_path / "coulisse.yaml").read_text()
    assert "$${HOME}" in content
    assert "$${PATH}" in content


def test_variables_are_found_at_any_depth(convert):
    body = {"extra_body": {"a": ["os.environ/DEEP"]}}
    report, data = convert(minimal(**body))
    assert agent(data, "m")["extra_body"] == {"a": ["${DEEP}"]}
    assert any("DEEP" in note for note in report["notes"])


@pytest.mark.parametrize(
    ("model", "use"),
    [
        ("mistral/mistral-embed", "embeddings"),
        ("dall-e-3", "images"),
        ("cohere/rerank-english-v3.0", "ranking"),
        ("openai/whisper-1", "sounds"),
    ],
)
def test_models_without_a_mode_are_known_by_their_names(convert, model, use):
    models = [
        {"model_name": name, "litellm_params": {"model": each}}
        for name, each in (("other", model), ("m", "gpt-4o"))
    ]
    report, data = convert(f"model_list: {json.dumps(models)}")
    assert [each["name"] for each in data["agents"]] == ["m"]
    assert report["skipped"][0]["reason"] == f"a model for {use} is no agent"


def test_deployment_that_is_listed_twice_is_one(convert):
    entry = {"model_name": "m", "litellm_params": {"model": "gpt-4o", "tags": ["a"]}}
    report, data = convert(f"model_list: {json.dumps([entry, entry])}")
    assert data["providers"]["openai"] == {
        "kind": "openai",
        "api_key": "${OPENAI_API_KEY}",
    }
    assert report["counts"]["models"]["read"] == 2


def test_limits_of_a_model_are_its_own(convert):
    models = [
        {"model_name": name, "litellm_params": {"model": "gpt-4o", "rpm": 10}}
        for name in ("a", "b")
    ]
    settings = "router_settings: {routing_strategy: least-busy}"
    report, data = convert(f"model_list: {json.dumps(models)}\n{settings}")
    assert [each["limits"] for each in data["providers"].values()] == [
        {"requests_per_minute": 10, "queue": 0},
        {"requests_per_minute": 10, "queue": 0},
    ]
    assert "router_settings.routing_strategy" in report["no_counterpart"]


# Runs


def test_existing_file_is_kept_unless_forced(convert, tmp_path):
    path = tmp_path / "coulisse.yaml"
    path.write_text("# mine\n")
    for arguments in ((), ("--dry-run",)):
        with pytest.raises(CommandError, match="already exists; pass --force"):
            convert(CONFIG, *arguments)
    assert path.read_text() == "# mine\n"
    convert(CONFIG, "--force")
    before = path.stat().st_mtime_ns
    entries = AuditEntry.objects.filter(action="import.run", target="litellm").count()
    report, _ = convert()
    assert report["counts"]["files"]["existing"] == 1
    assert path.stat().st_mtime_ns == before
    again = AuditEntry.objects.filter(action="import.run", target="litellm").count()
    assert again == entries


def test_dry_run_writes_nothing(convert, tmp_path):
    key = virtual_key()
    report, data = convert(CONFIG, "--dry-run", keys={"keys": [key]})
    assert not data
    assert report["counts"]["API tokens"]["written"] == 1
    assert not ApiToken.objects.filter(digest=key["token"]).exists()


def test_output_names_the_file(convert, tmp_path):
    convert(CONFIG, "--output", str(tmp_path / "new.yaml"))
    assert (tmp_path / "new.yaml").exists()
    assert not (tmp_path / "coulisse.yaml").exists()


MALFORMED = {
    "no YAML": ("a: [", r"config\.yaml:1 is not valid YAML"),
    "no models": ("general_settings: {}", "has no list 'model_list'"),
    "a list": ("- 1", "has no list 'model_list'"),
    "tag": ("model_list: [!!python/object:os.system x]", "is not valid YAML|has no"),
    "aliases": (
        "a: &a [1,1,1,1,1,1,1,1,1,1]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a,*a]\n"
        "c: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\n"
        "model_list: [*d,*d,*d]",
        "more than 20,000 values",
    ),
    "no agent": ("model_list: [1, {model_name: x}]", "no model of config.yaml can"),
    "large": (f"# {'x' * 1024 * 1024}", "larger than 1,048,576 bytes"),
    "wrong value": (minimal(temperature="hot"), "would not be valid here.*temperature"),
}


@pytest.mark.parametrize(("text", "problem"), MALFORMED.values(), ids=MALFORMED)
def test_malformed_configuration_is_an_error(convert, tmp_path, text, problem):
    with pytest.raises(CommandError, match=problem):
        convert(text)
    assert not (tmp_path / "coulisse.yaml").exists()


WRONG_TYPES = """
router_settings: {num_retries: many, timeout: -1, fallbacks: [1, {m: 2}], x: null}
litellm_settings: [1]
model_list:
  - model_name: m
    litellm_params: {model: gpt-4o, rpm: true, timeout: "10.5", max_retries: "2"}
    model_info: text
"""


def test_values_of_other_types_are_reported(convert):
    report, data = convert(WRONG_TYPES)
    (provider,) = data["providers"].values()
    assert provider["timeouts"] == {"total_seconds": 10.5}
    assert provider["retries"] == 2
    assert set(report["no_counterpart"]) == {
        "fallbacks.m",
        "litellm_settings",
        "model_list[0].litellm_params.rpm",
        "model_list[0].model_info",
        "router_settings.num_retries",
        "router_settings.timeout",
    }


# Keys


def virtual_key(secret=None, **fields):
    secret = secret or f"sk-{uuid.uuid4().hex}"
    return {
        "token": hashlib.sha256(secret.encode()).hexdigest(),
        "key_name": f"sk-...{secret[-4:]}",
        "key_alias": f"app-{uuid.uuid4().hex[:8]}",
        "spend": 2.5,
        "max_budget": None,
        "expires": None,
        "models": [],
        "aliases": {},
        "user_id": "ada",
        "team_id": None,
        "tpm_limit": None,
        "rpm_limit": None,
        "budget_duration": None,
        "blocked": None,
        **fields,
    }


def token_of(key):
    return ApiToken.objects.get(digest=key["token"])


def test_keys_become_tokens_that_go_on_working(convert):
    secret = f"sk-{uuid.uuid4().hex[:22]}"
    expires = "2099-01-01T00:00:00+00:00"
    key = virtual_key(secret, models=["claude", "gpt-4"], expires=expires)
    report, _ = convert(CONFIG, keys={"keys": [key], "total_pages": 1})
    verified = ApiToken.objects.verify(key["token"], datetime.now(UTC))
    assert verified is not None
    assert verified.principal == "ada"
    assert verified.agents == {"claude", "gpt-4"}
    assert verified.client_users == "ignore"
    assert verified.expires_at == datetime.fromisoformat(expires)
    assert report["counts"]["API tokens"]["written"] == 1
    report, _ = convert(CONFIG, keys=[key])
    assert report["counts"]["API tokens"] == {
        "read": 1,
        "written": 0,
        "existing": 1,
        "skipped": 0,
    }


BUDGETS = {
    "none": ((None, None), ("unlimited", None), {}),
    "total": ((10, None), ("total", 7_500_000), {}),
    "spent": ((2, None), ("total", 0), {}),
    "month": ((10, "30d"), ("monthly", 10_000_000), {}),
    "month by name": ((10, "1mo"), ("monthly", 10_000_000), {}),
    "day": ((10, "24h"), ("unlimited", None), {"usd_per_day": 10}),
    "week": ((7, "7d"), ("unlimited", None), {"usd_per_day": 1}),
    "hour": ((1, "1h"), ("unlimited", None), {"usd_per_day": 1}),
    "two months": ((60, "60d"), ("unlimited", None), {"usd_per_month": 30}),
}


@pytest.mark.parametrize(("given", "token", "limit"), BUDGETS.values(), ids=BUDGETS)
def test_budgets_of_keys(convert, given, token, limit):
    key = virtual_key(max_budget=given[0], budget_duration=given[1])
    _, data = convert(minimal(), keys=[key])
    row = token_of(key)
    assert (row.budget, row.limit_micro_usd) == token
    expected = [{"per": "token", "name": row.label, **limit}] if limit else []
    assert data.get("limits", []) == expected


def test_rates_of_keys_are_limits_of_the_file(convert):
    key = virtual_key(rpm_limit=60, tpm_limit=1000, max_parallel_requests=2)
    _, data = convert(minimal(), keys=[key])
    assert data["limits"] == [
        {
            "per": "token",
            "name": key["key_alias"],
            "requests_per_minute": 60,
            "tokens_per_minute": 1000,
            "concurrent": 2,
        }
    ]


SKIPPED = {
    "clear text": ({"token": "sk-clear-text-8"}, "not a SHA-256"),
    "blocked": ({"blocked": True}, "blocked"),
    "session": ({"team_id": "litellm-dashboard"}, "session of LiteLLM's pages"),
    "expired": ({"expires": "2020-01-01T00:00:00"}, "in the past"),
    "no time": ({"expires": "soon"}, "'expires' is not a time"),
    "no agent": ({"models": ["ghost"]}, "none of its models is an agent"),
    "no models": ({"models": "all"}, "'models' is not a list"),
    "no number": ({"max_budget": "much"}, "'max_budget' is not a number"),
    "alias": ({"key_alias": "a\x1b[2J"}, "invisible characters"),
}


@pytest.mark.parametrize(("fields", "reason"), SKIPPED.values(), ids=SKIPPED)
def test_key_that_cannot_be_a_token_is_skipped(convert, fields, reason):
    good = virtual_key()
    report, _ = convert(minimal(), keys=[virtual_key(**fields), good])
    (skipped,) = report["skipped"]
    assert reason in skipped["reason"]
    assert skipped["examples"] == ["keys[0]"]
    assert "clear-text" not in json.dumps(report)
    assert token_of(good)


MALFORMED_KEYS = {
    "text": ("x", "has no list 'keys' of objects"),
    "hashes": ({"keys": ["88dc28"]}, "return_full_object=true"),
}


@pytest.mark.parametrize(
    ("keys", "problem"), MALFORMED_KEYS.values(), ids=MALFORMED_KEYS
)
def test_malformed_keys_are_an_error(convert, tmp_path, keys, problem):
    with pytest.raises(CommandError, match=problem):
        convert(minimal(), keys=keys)
    assert not (tmp_path / "coulisse.yaml").exists()


def test_missing_pages_of_keys_are_noted(convert):
    page = {"keys": [virtual_key()], "total_count": 9, "total_pages": 9}
    report, _ = convert(minimal(), keys=page)
    assert any("1 of 9 were given" in note for note in report["notes"])


def test_model_with_most_calls_answers_first(convert):
    params = [{"model": "gpt-4o", "rpm": 6}, {"model": "gpt-4.1", "rpm": 600}]
    models = [{"model_name": "m", "litellm_params": each} for each in params]
    _, data = convert(f"model_list: {json.dumps(models)}")
    assert agent(data, "m")["model"] == "gpt-4.1"
    assert agent(data, "m")["fallbacks"][0]["model"] == "gpt-4o"


def test_keys_without_a_database_write_no_file(convert, tmp_path, monkeypatch):
    def fail(*_):
        raise OperationalError("unable to open database file")

    monkeypatch.setattr(QuerySet, "exists", fail)
    with pytest.raises(CommandError, match="coulisse migrate"):
        convert(minimal(), keys=[{"token": "a" * 64, "key_alias": "k"}])
    assert not (tmp_path / "coulisse.yaml").exists()
