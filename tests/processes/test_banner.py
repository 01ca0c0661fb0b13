"""The banner warns of what is open to everybody."""

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
    ("provider", "bind", "warns"),
    [
        (PAID, "0.0.0.0", True),
        (PAID, "'::'", True),
        (PAID, "127.0.0.1", False),
        (PAID, "'::1'", False),
        (LOCAL, "0.0.0.0", False),
    ],
)
def test_banner_warns_of_unprotected_paid_agents(
    tmp_path: Path, provider: str, bind: str, warns: bool
) -> None:
    path = tmp_path / "coulisse.yaml"
    path.write_text(
        f"agents: [{{name: a, provider: p, model: m}}]\nproviders: {{{provider}}}\n"
        f"server: {{bind: {bind}, port: 8500}}\n"
    )
    shown = startup_banner.render(loader.load_file(path), RUN)
    assert ("Anyone who can reach port 8500 can use these agents" in shown) is warns


@pytest.mark.parametrize(
    ("auth", "said"),
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
    tmp_path: Path, database: None, auth: str, said: str
) -> None:
    path = tmp_path / "coulisse.yaml"
    path.write_text(
        "agents: [{name: a, provider: p, model: m}]\n"
        f"providers: {{{PAID}}}\nauth: {auth}\n"
    )
    shown = startup_banner.render(loader.load_file(path), RUN)
    assert f"Auth       {said}\n" in shown
    assert ("Anyone who can reach" in shown) is said.startswith("proxy: open")


@pytest.mark.parametrize(
    ("memory", "agent", "said"),
    [
        ("false", "", "user_state: disabled (history only)"),
        (
            "true",
            "",
            "learns from p / gpt-4o-mini; embeds with openai:text-embedding-3",
        ),
        ("{embed_with: {provider: hash}}", "", "embeds with hash:1024"),
        ("{embed_with: {provider: hash}}", "", "no semantic understanding"),
        ("{learn_from: {provider: p, model: x}}", "", "learns from p / x"),
        ("true", ", memory: false", "p / m  (user_state: off)"),
        ("false", ", memory: true", "p / m  (user_state: on)"),
    ],
)
def test_banner_shows_the_memory_models(
    tmp_path: Path, database: None, memory: str, agent: str, said: str
) -> None:
    path = tmp_path / "coulisse.yaml"
    path.write_text(
        f"agents: [{{name: a, provider: p, model: m{agent}}}]\n"
        f"providers: {{{PAID}}}\nmemory: {{user_state: {memory}}}\n"
    )
    assert said in startup_banner.render(loader.load_file(path), RUN)


def test_banner_shows_agent_models_for_own_servers(
    tmp_path: Path, database: None
) -> None:
    path = tmp_path / "coulisse.yaml"
    path.write_text(
        "agents: [{name: a, provider: p, model: m}, {name: b, provider: p, model: n}]\n"
        "providers: {p: {kind: openai, base_url: 'http://x/v1'}}\n"
        "memory: {user_state: true}\n"
    )
    shown = startup_banner.render(loader.load_file(path), RUN)
    assert "learns from p / m, p / n; embeds with local:" in shown


def test_banner_lists_the_experiments(tmp_path: Path, database: None) -> None:
    path = tmp_path / "coulisse.yaml"
    path.write_text(
        "agents: [{name: a, provider: p, model: m}, {name: b, provider: p, model: n}]\n"
        f"providers: {{{PAID}}}\n"
        "experiments:\n"
        "  - {name: x, strategy: split, variants: [{agent: a}, {agent: b}]}\n"
    )
    shown = startup_banner.render(loader.load_file(path), RUN)
    assert "  Experiments (1)\n    x  split: a, b\n" in shown
