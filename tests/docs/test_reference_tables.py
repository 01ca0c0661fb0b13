"""Tables of the documentation list every field, with its default."""

import re
from pathlib import Path
from typing import get_args

import pytest
from django.core.management import get_commands

from agents.config import AgentConfig
from agents.realtime_config import RealtimeConfig
from agents.skills.skill_registry import SkillsConfig
from agents.state.config import Reducer, StateField
from config import sections
from config.config import ServerConfig
from config.loading import secrets_file
from core.messages import Message
from files.config import S3Config, StorageConfig
from gateway.openai import request_conversion
from gateway.schemas import ChatRequest
from mcp_bridge.config import ToolServerConfig as McpServerConfig
from providers import errors as provider_errors
from providers import registry
from providers.config import (
    FALLBACK_WAIT_SECONDS,
    KIND_NAMES,
    WAIT_SECONDS,
    BreakerConfig,
    EndpointConfig,
    ProviderConfig,
    ProviderLimits,
    Timeouts,
)
from providers.embeddings import embedders, openai, voyage
from providers.embeddings.base import EmbeddingModel
from providers.embeddings.config import EmbedderConfig
from providers.model_request import ModelRequest
from providers.registry import ProviderKind
from smoke.config import Expectations, PersonaConfig, SmokeTestConfig
from telemetry.schemas import DiagnosticsObject
from tests.docs.pages import BASE, CODE, names_in_table, table_rows
from triggers.config import BootTrigger, CronTrigger, WebhookTrigger

# configuration.md


def test_every_top_level_key_is_listed():
    listed = names_in_table("configuration.md", "key")
    assert listed == sections.registered_sections().keys()


def test_key_availability_matches_the_table():
    known = sections.registered_sections()
    for key, _, version, applies in table_rows("configuration.md", "key"):
        section = known[key.strip("`")]
        assert (version == "required") is section.required, key
        assert applies == {"live": "at once", "restart": "on restart"}[section.applies]


def test_every_server_field_is_listed():
    assert (
        names_in_table("configuration.md", "field") == ServerConfig.model_fields.keys()
    )


def test_every_problem_id_is_listed():
    used = set()
    for folder in (
        "access",
        "agents",
        "config",
        "experiments",
        "files",
        "gateway",
        "judges",
        "mcp_bridge",
        "memory",
        "providers",
        "safety",
        "smoke",
        "tasks",
        "triggers",
        "turns",
    ):
        for file in (BASE / folder).rglob("*.py"):
            used |= set(re.findall(r"\"(coulisse\.E\d{3})\"", file.read_text()))
    assert names_in_table("configuration.md", "id") == used


# files.md


def test_every_storage_field_is_listed():
    for model, column in (
        (StorageConfig, "field of `storage`"),
        (S3Config, "field of `s3`"),
    ):
        assert names_in_table("files.md", column) == model.model_fields.keys()


# agents.md


def test_every_agent_field_is_listed():
    assert names_in_table("agents.md", "field") >= AgentConfig.model_fields.keys()


def test_every_field_of_voice_is_listed():
    listed = names_in_table("voice.md", "field of `realtime`")
    assert listed == RealtimeConfig.model_fields.keys()


def test_every_diagnostic_is_listed():
    listed = names_in_table("telemetry.md", "field")
    assert listed == DiagnosticsObject.model_fields.keys()


def test_agent_defaults_match_the_table():
    defaults = {row[0].strip("`"): row[1] for row in table_rows("agents.md", "field")}
    assert defaults["max_turns"] == f"`{AgentConfig.model_fields['max_turns'].default}`"


# providers.md

TOOL = {"type": "function", "function": {"name": "f"}}
SAMPLES = {
    "frequency_penalty": 0.5,
    "logit_bias": {"1": 1},
    "logprobs": True,
    "max_completion_tokens": 50,
    "max_tokens": 50,
    "moderation": {"model": "omni-moderation-latest"},
    "parallel_tool_calls": False,
    "prediction": {"type": "content", "content": "x"},
    "presence_penalty": 0.5,
    "prompt_cache_key": "k",
    "prompt_cache_options": {"ttl": "30m"},
    "prompt_cache_retention": "24h",
    "reasoning_effort": "low",
    "seed": 1,
    "service_tier": "default",
    "stop": ["x"],
    "store": True,
    "temperature": 1.5,
    "tool_choice": "required",
    "top_logprobs": 2,
    "top_p": 0.5,
    "verbosity": "low",
}


def becomes(kind: ProviderKind, name: str) -> str:
    """What a kind makes of a parameter, in the table's words."""
    if kind.unsupported_parameters is not None and name in kind.unsupported_parameters:
        return "dropped" if name in registry.HINTS else "refused"
    without, with_parameter = (
        kind.wire.body(
            ModelRequest("claude-sonnet-4-5", [Message("user", "x")], [TOOL], given)
        )
        for given in ({}, {name: SAMPLES[name]})
    )
    if with_parameter.get(name) == SAMPLES[name]:
        return "passed"
    return "ignored" if with_parameter == without else "mapped"


def test_parameter_table_matches_the_provider_kinds():
    columns = {**registry.KINDS, "compatible": registry.COMPATIBLE}
    expected = [
        [f"`{name}`", *(becomes(kind, name) for kind in columns.values())]
        for name in sorted(request_conversion.PASSED_PARAMETERS)
    ]
    assert table_rows("providers.md", "parameter") == expected
    header = "| parameter | " + " | ".join(columns) + " |"
    assert header in (BASE / "docs/providers.md").read_text()


def test_extra_parameters_match_the_provider_kinds():
    columns = {**registry.KINDS, "compatible": registry.COMPATIBLE}
    listed = {
        kind.strip(" `"): set(CODE.findall(names))
        for kinds, names in table_rows("providers.md", "API")
        for kind in kinds.split(",")
    }
    assert listed == {
        name: set(kind.extra_parameters) for name, kind in columns.items()
    }


def test_every_provider_kind_is_listed_with_its_address():
    listed = {
        kind.strip("`"): address
        for kind, _, address in table_rows("providers.md", "kind")
    }
    assert listed.keys() == set(KIND_NAMES)
    for name, kind in registry.KINDS.items():
        assert kind.base_url is None or listed[name] == f"`{kind.base_url}`"


def test_every_provider_field_is_listed():
    assert names_in_table("providers.md", "field") == ProviderConfig.model_fields.keys()


def test_provider_timeouts_match_the_table():
    listed = {
        row[0].strip("`"): row[1] for row in table_rows("providers.md", TIMEOUT_FIELD)
    }
    defaults = Timeouts().model_dump()
    wait = f"{WAIT_SECONDS:g}; {FALLBACK_WAIT_SECONDS:g} with a fallback"
    assert listed == {
        name: wait if seconds is None else f"{seconds:g}"
        for name, seconds in defaults.items()
    }


TIMEOUT_FIELD = "field of `timeouts`"


def test_every_endpoint_key_is_listed():
    assert (
        names_in_table("providers.md", "key of an endpoint")
        == EndpointConfig.model_fields.keys()
    )


def test_breaker_defaults_match_the_table():
    listed = {row[0]: row[1] for row in table_rows("providers.md", "key of `breaker`")}
    defaults = BreakerConfig().model_dump()
    assert listed == {f"`{name}`": f"`{value}`" for name, value in defaults.items()}


def test_every_limit_of_a_provider_is_listed():
    listed = names_in_table("providers.md", "key of `limits`")
    assert listed == ProviderLimits.model_fields.keys()


def test_every_provider_error_code_is_listed():
    text = (BASE / "docs/providers.md").read_text()
    codes = {
        error.code
        for error in vars(provider_errors).values()
        if isinstance(error, type) and error.__module__ == "providers.errors"
    }
    assert [code for code in codes if code and f"`{code}`" not in text] == []


# embedders.md


def test_every_embed_with_field_is_listed():
    assert names_in_table("embedders.md", "field") == EmbedderConfig.model_fields.keys()


def test_embedding_models_match_the_table():
    listed = {
        (embedder.strip("`"), name.strip("`")): (int(dimensions), choices)
        for name, embedder, dimensions, choices in table_rows("embedders.md", "model")
    }
    known = {"openai": openai.MODELS, "voyage": voyage.MODELS}
    assert listed == {
        (embedder, name): (model.dimensions, others(model))
        for embedder, models in known.items()
        for name, model in models.items()
    }


def others(model: EmbeddingModel) -> str:
    """The lengths that may be asked for besides a model's own, in the table's words."""
    rest = [choice for choice in model.choices if choice != model.dimensions]
    if isinstance(model.choices, range):
        return f"{rest[0]} to {rest[-1]}"
    return ", ".join(map(str, rest))


def test_offline_embedders_match_the_table():
    empty = sections.Config(Path("coulisse.yaml"), {"providers": {}})
    for name, dimensions, threshold, languages, _ in table_rows(
        "embedders.md", "embedder"
    ):
        asked = EmbedderConfig(provider=name.strip("`"))
        embedder = embedders.choose_embedder(empty, asked)
        assert dimensions.split(",")[0] == str(embedder.dimensions)
        assert float(threshold) == embedder.similarity_threshold
        assert languages == embedder.languages


# chat.md


def test_every_request_parameter_is_listed():
    assert names_in_table("chat.md", "parameter") == ChatRequest.model_fields.keys()


def test_parameter_treatment_matches_the_table():
    fates = {
        name: re.match(r"\w+", row[1])[0]
        for row in table_rows("chat.md", "parameter")
        for name in CODE.findall(row[0])
    }
    passed = {name for name, fate in fates.items() if fate == "passed"}
    refused = {name for name, fate in fates.items() if fate == "refused"}
    assert passed == {*request_conversion.PASSED_PARAMETERS, "tools"}
    assert refused == {*request_conversion.REFUSED_PARAMETERS, "modalities", "n"}


# skills.md


def test_every_skills_key_is_listed_with_its_default():
    listed = {
        name.strip("`"): default for name, default, _ in table_rows("skills.md", KEY)
    }
    fields = SkillsConfig.model_fields
    assert listed == {name: f"`{field.default}`" for name, field in fields.items()}


KEY = "key of `skills`"


# triggers.md


def test_every_trigger_field_is_listed_with_its_default():
    listed = {name.strip("`"): default for name, default, _ in triggers_rows()}
    fields = {
        name: field
        for trigger in (CronTrigger, WebhookTrigger, BootTrigger)
        for name, field in trigger.model_fields.items()
    }
    assert listed.keys() == fields.keys()
    for name in ("catch_up", "enabled", "header", "learns", "max_body_bytes"):
        assert listed[name] == f"`{json_like(fields[name].default)}`"


def test_tour_shows_every_trigger_field():
    tour = (BASE / "config/starters/tour.yaml").read_text()
    for name, _, _ in triggers_rows():
        assert re.search(rf"^  [ -] {name.strip('`')}:", tour, re.MULTILINE), name


def triggers_rows() -> list[list[str]]:
    return table_rows("triggers.md", "field")


def json_like(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


# running.md


def test_every_command_is_listed():
    own_commands = {name for name, app in get_commands().items() if app in OWN_APPS}
    listed = names_in_table("running.md", "command")
    assert own_commands <= listed
    assert listed <= get_commands().keys()


OWN_APPS = {
    "access",
    "config",
    "memory",
    "processes",
    "smoke",
    "tasks",
    "triggers",
    "turns",
}


def test_every_settings_variable_is_listed():
    site = BASE / "coulisse_site"
    source = "".join(
        (site / name).read_text() for name in ("environment.py", "settings.py")
    )
    read = set(re.findall(r"\b(?:env\.\w+|read_count)\(\s*\"([A-Z_]+)\"", source))
    read |= {*secrets_file.KEYS, secrets_file.USER_NAMESPACE}
    assert names_in_table("running.md", "variable") == read


def test_every_make_target_is_listed():
    makefile = (BASE / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z-]+):.*## ", makefile, re.MULTILINE))
    assert names_in_table("running.md", "target") == targets


# mcp.md


def test_every_mcp_server_field_is_listed():
    assert names_in_table("mcp.md", "field") == McpServerConfig.model_fields.keys()


# smoke-tests.md


def test_every_state_field_is_listed():
    fields = names_in_table("state.md", "field of a state")
    assert fields == StateField.model_fields.keys()
    assert names_in_table("state.md", "reducer") == {*get_args(Reducer)}


@pytest.mark.parametrize(
    ("heading", "shape"),
    [
        ("field", SmokeTestConfig),
        ("field of `persona`", PersonaConfig),
        ("field of `expect`", Expectations),
    ],
)
def test_every_smoke_test_field_is_listed(heading, shape):
    assert names_in_table("smoke-tests.md", heading) == shape.model_fields.keys()


def test_files_named_in_architecture_exist():
    text = (BASE / "docs" / "architecture.md").read_text()
    paths = re.findall(r"`([a-z_]+/[a-z_./]+)`", text)
    own = [path for path in paths if not path.startswith("management/")]
    assert len(own) > 30
    assert [path for path in own if not (BASE / path).exists()] == []
