"""The banner warns of what is open to everybody."""

from pathlib import Path

import pytest

from config import loader
from processes import banner
from processes.record import RunRecord

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
def test_it_warns_when_strangers_may_spend_money(
    tmp_path: Path, provider: str, bind: str, warns: bool
) -> None:
    path = tmp_path / "coulisse.yaml"
    path.write_text(
        f"agents: [{{name: a, provider: p, model: m}}]\nproviders: {{{provider}}}\n"
        f"server: {{bind: {bind}, port: 8500}}\n"
    )
    shown = banner.render(loader.load(path), RUN)
    assert ("Anyone who can reach port 8500 can use these agents" in shown) is warns
