"""The startup banner."""

from pathlib import Path

import pytest

from config.loading import loader
from processes.server import startup_banner
from processes.supervision.run_state import RunRecord

RUN = RunRecord(
    pid=1,
    config="coulisse.yaml",
    url="http://localhost:8421",
    local_model_url=None,
    is_detached=True,
    is_serving=True,
    children=(),
)
PAID = "p: {kind: openai, api_key: k}"
LOCAL = "p: {kind: local}"


@pytest.mark.parametrize(
    ("provider", "bind", "is_warned"),
    [
        (PAID, "0.0.0.0", True),
        (PAID, "'::'", True),
        (PAID, "127.0.0.1", False),
        (PAID, "'::1'", False),
        (LOCAL, "0.0.0.0", False),
    ],
)
def test_banner_warns_of_unprotected_paid_agents(
    tmp_path: Path, provider: str, bind: str, is_warned: bool
) -> None:
    path = tmp_path / "coulisse.yaml"
    path.write_text(
        f"agents: [{{name: a, provider: p, model: m}}]\nproviders: {{{provider}}}\n"
        f"server: {{bind: {bind}, port: 8500}}\n"
    )
    banner = startup_banner.render(loader.load_file(path), RUN)
    assert (
        "Anyone who can reach port 8500 can use these agents" in banner
    ) is is_warned


@pytest.mark.parametrize(
    ("auth", "expected"),
    [
        ("{}", "proxy: open · admin: this machine only"),
        ("{proxy: {tokens: {}}}", "proxy: tokens · admin: this machine only"),
        (
            "{proxy: {basic: {password: password-x}}, "
            "admin: {basic: [{password: password-y}]}}",
            "proxy: basic · admin: basic",
        ),
        ("{admin: {basic: {password: password-y}}}", "proxy: open · admin: basic"),
    ],
)
def test_banner_shows_the_authentication(
    tmp_path: Path, database: None, auth: str, expected: str
) -> None:
    path = tmp_path / "coulisse.yaml"
    path.write_text(
        "agents: [{name: a, provider: p, model: m}]\n"
        f"providers: {{{PAID}}}\nauth: {auth}\n"
    )
    banner = startup_banner.render(loader.load_file(path), RUN)
    assert f"Auth       {expected}\n" in banner
    assert ("Anyone who can reach" in banner) is expected.startswith("proxy: open")


@pytest.mark.parametrize(
    ("memory", "agent", "expected"),
    [
        ("false", "", "user_state: disabled (history only)"),
        (
            "true",
            "",
            "facts by p / gpt-4o-mini; embeddings by openai:text-embedding-3",
        ),
        ("{embed_with: {provider: hash}}", "", "embeddings by hash:1024"),
        ("{embed_with: {provider: hash}}", "", "no semantic understanding"),
        ("{learn_from: {provider: p, model: x}}", "", "facts by p / x"),
        ("true", ", memory: false", "p / m  (user_state: off)"),
        ("false", ", memory: true", "p / m  (user_state: on)"),
    ],
)
def test_banner_shows_the_memory_models(
    tmp_path: Path, database: None, memory: str, agent: str, expected: str
) -> None:
    path = tmp_path / "coulisse.yaml"
    path.write_text(
        f"agents: [{{name: a, provider: p, model: m{agent}}}]\n"
        f"providers: {{{PAID}}}\nmemory: {{user_state: {memory}}}\n"
    )
    assert expected in startup_banner.render(loader.load_file(path), RUN)


def test_banner_shows_agent_models_for_own_servers(
    tmp_path: Path, database: None
) -> None:
    path = tmp_path / "coulisse.yaml"
    path.write_text(
        "agents: [{name: a, provider: p, model: m}, {name: b, provider: p, model: n}]\n"
        "providers: {p: {kind: openai, base_url: 'http://x/v1'}}\n"
        "memory: {user_state: true}\n"
    )
    banner = startup_banner.render(loader.load_file(path), RUN)
    assert "facts by p / m, p / n; embeddings by local:" in banner


def test_banner_lists_the_experiments(tmp_path: Path, database: None) -> None:
    path = tmp_path / "coulisse.yaml"
    path.write_text(
        "agents: [{name: a, provider: p, model: m}, {name: b, provider: p, model: n}]\n"
        f"providers: {{{PAID}}}\n"
        "experiments:\n"
        "  - {name: x, strategy: split, variants: [{agent: a}, {agent: b}]}\n"
    )
    banner = startup_banner.render(loader.load_file(path), RUN)
    assert "  Experiments (1)\n    x  split: a, b\n" in banner
