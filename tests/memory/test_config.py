"""The memory settings: validation, defaults, and overrides of agents."""

from pathlib import Path

import pytest

from agents.config import AGENTS
from config.errors import ConfigInvalid
from config.loading import loader
from memory import memory_settings
from memory.config import MEMORY

PROVIDERS = """
providers:
  {name}: {{kind: {kind}, api_key: sk-secret}}
"""
AGENT = """
agents:
  - {{name: a, provider: {name}, model: m{more}}}
"""


@pytest.fixture
def load(tmp_path: Path):
    """Return a function that loads a YAML with this memory."""

    def load(memory: str, *, kind: str = "openai", more: str = "", providers: str = ""):
        path = tmp_path / "coulisse.yaml"
        head = providers or PROVIDERS.format(name="p", kind=kind)
        memory = f"memory: {memory}\n" if memory else ""
        path.write_text(head + AGENT.format(name="p", more=more) + memory)
        return loader.load_file(path)

    return load


def agent_memory_of(config):
    (agent,) = config.get(AGENTS).values()
    return memory_settings.resolve(config, agent.memory, (agent.provider, agent.model))


def error_of(load, memory: str, **more) -> str:
    with pytest.raises(ConfigInvalid) as caught:
        load(memory, **more)
    return str(caught.value)


@pytest.mark.parametrize(
    "memory", ["", "{}", "{user_state: false}", "{user_state: null}"]
)
def test_memory_is_off_by_default(load, memory):
    assert agent_memory_of(load(memory)).user_memory is None


@pytest.mark.parametrize("memory", ["{user_state: true}", "{user_state: {}}"])
def test_user_state_true_chooses_defaults(load, memory):
    chosen = agent_memory_of(load(memory)).user_memory
    assert chosen.extraction_model[0::2] == ("p", "gpt-4o-mini")
    assert chosen.embedder.id == "openai:text-embedding-3-small:1536"


@pytest.mark.parametrize(
    ("kind", "model", "embedder"),
    [
        ("anthropic", "claude-haiku-4-5-20251001", "local:minilm-int8:384"),
        ("gemini", "gemini-2.5-flash-lite", "local:minilm-int8:384"),
        ("groq", "llama-3.1-8b-instant", "local:minilm-int8:384"),
        ("deepseek", "deepseek-chat", "local:minilm-int8:384"),
        ("cohere", "command-r7b-12-2024", "local:minilm-int8:384"),
        ("local", "smollm2-135m", "local:minilm-int8:384"),
    ],
)
def test_each_provider_kind_has_cheap_model(load, kind, model, embedder):
    chosen = agent_memory_of(load("{user_state: true}", kind=kind)).user_memory
    assert (chosen.extraction_model.model, chosen.embedder.id) == (model, embedder)


def test_extraction_provider_order_follows_reference(load):
    kinds = ["local", "cohere", "deepseek", "groq", "gemini", "openai", "anthropic"]
    providers = (
        "providers:\n"
        + "".join(f"  {kind}: {{api_key: k}}\n" for kind in kinds)
        + "  p: {kind: local}\n"
    )
    for kind in reversed(kinds):
        chosen = agent_memory_of(
            load("{user_state: true}", providers=providers)
        ).user_memory
        assert chosen.extraction_model.name == kind
        providers = providers.replace(f"  {kind}: {{api_key: k}}\n", "")


def test_own_server_extracts_with_the_agents_model(load):
    providers = "providers:\n  p: {kind: openai, base_url: 'http://x/v1'}\n"
    chosen = agent_memory_of(
        load("{user_state: true}", providers=providers)
    ).user_memory
    assert chosen.extraction_model[0::2] == ("p", "m")
    assert chosen.embedder.id.startswith("local:")


def test_extraction_model_and_embedder_can_be_set(load):
    chosen = agent_memory_of(
        load(
            "{user_state: {learn_from: {provider: p, model: tiny}, "
            "embed_with: {provider: hash, dims: 32}, recall_k: 0}}"
        )
    ).user_memory
    assert chosen.extraction_model.model == "tiny"
    assert chosen.embedder.id == "hash:32"
    assert chosen.user_state.recall_k == 0


@pytest.mark.parametrize(
    ("memory", "expected"),
    [
        ("{user_state: maybe}", "user_state"),
        ("{user_stat: true}", "user_stat"),
        ("{user_state: {recall_k: -1}}", "recall_k"),
        ("{user_state: {recall_k: many}}", "recall_k"),
        ("{user_state: {dedup_threshold: 1.5}}", "dedup_threshold"),
        ("{user_state: {fusion: best}}", "fusion"),
        ("{user_state: {learn_from: gpt}}", "learn_from"),
        ("{user_state: {learn_from: {provider: q, model: x}}}", "not under providers"),
        ("{user_state: {learn_from: {provider: p}}}", "model"),
        ("{user_state: {embed_with: {provider: voyage}}}", "api_key"),
        ("{user_state: {embed_with: {provider: nobody}}}", "nobody"),
        ("{user_state: {embed_with: {provider: openai, model: x}}}", "x"),
        ("{user_state: {commit: never}}", "commit"),
        ("{user_state: {consent: perhaps}}", "consent"),
        (
            "{user_state: {commit: session}, sessions: false}",
            "remove `sessions: false` under memory:",
        ),
        ("{importance: {user: 7}}", "importance"),
        ("{consolidation_interval_hours: 0}", "consolidation_interval_hours"),
        ("{working_memory_cap: -1}", "working_memory_cap"),
    ],
)
def test_invalid_memory_config_names_the_key(load, memory, expected):
    text = error_of(load, memory)
    assert expected in text
    assert "sk-secret" not in text


@pytest.mark.parametrize(
    ("memory", "override", "is_on"),
    [
        ("{user_state: true}", "false", False),
        ("{user_state: true}", "{user_state: false}", False),
        ("{user_state: true}", "{recall_k: 1}", True),
        ("{user_state: false}", "true", True),
        ("{user_state: false}", "{user_state: true}", True),
        ("{user_state: false}", "{recall_k: 1}", False),
        ("", "true", True),
    ],
)
def test_agent_can_switch_memory_on_or_off(load, memory, override, is_on):
    config = load(memory, more=f", memory: {override}")
    assert (agent_memory_of(config).user_memory is not None) is is_on


def test_agent_overrides_only_its_own_keys(load):
    override = "{recall_k: 9, salience_limit: 0, learn_from: {provider: p, model: t}}"
    state = "{user_state: {recall_k: 3, block_tokens: 77}}"
    config = load(state, more=f", memory: {override}")
    agent_memory, everyones = agent_memory_of(config), config.get(MEMORY)
    assert agent_memory.user_memory.user_state.recall_k == 9
    assert agent_memory.user_memory.user_state.block_tokens == 77
    assert agent_memory.settings.salience_limit == 0
    assert agent_memory.user_memory.extraction_model.model == "t"
    assert (everyones.user_state.recall_k, everyones.salience_limit) == (3, 5)


def test_null_agent_settings_inherit_global_values(load):
    override = "{recall_k: null, salience_limit: null, recency_limit: null}"
    memory = "{recency_limit: 4, user_state: {recall_k: 3}}"
    agent_memory = agent_memory_of(load(memory, more=f", memory: {override}"))
    assert agent_memory.user_memory.user_state.recall_k == 3
    assert (
        agent_memory.settings.salience_limit,
        agent_memory.settings.recency_limit,
    ) == (5, 4)


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("{embed_with: {provider: hash}}", "embed_with"),
        ("{recall_k: -1}", "recall_k"),
        ("{learn_from: {provider: q, model: x}}", "not under providers"),
        ("maybe", "memory"),
    ],
)
def test_unsupported_agent_override_is_refused(load, override, expected):
    assert expected in error_of(
        load, "{user_state: true}", more=f", memory: {override}"
    )


def test_memory_settings_are_cached_per_configuration(load):
    config = load("{user_state: true}")
    assert agent_memory_of(config) is agent_memory_of(config)
    assert agent_memory_of(load("{user_state: true}")) is not agent_memory_of(config)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ("", False),
        ("memory: false", False),
        ("memory: false, memory_tools: true", True),
        ("memory: {scope: agent}", True),
        ("memory: {scope: thread}", True),
    ],
)
def test_only_agents_that_remember_have_narrow_scopes(load, settings, expected):
    config = load("{user_state: true}", more=f", {settings}" if settings else "")
    assert memory_settings.has_narrow_scopes(config) is expected
