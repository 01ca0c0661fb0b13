"""Sample sections, so that the tests need no other app."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field, SecretStr

from config import live
from config.errors import ConfigInvalid
from config.loading import loader
from config.sections import Config, Problem, Section


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Kitchen(Strict):
    open: bool = True
    stoves: int = Field(1, ge=1, le=9)
    fuel: Literal["electricity", "gas"] = "gas"


class Oven(Strict):
    heat: int


class Cook(Strict):
    name: str = Field(min_length=1)
    speciality: str = ""
    api_key: SecretStr | None = None
    headers: dict[str, int] = {}
    dishes: list[str] = Field([], max_length=2)
    oven: bool | Oven = False
    pace: float | None = None
    boss: str | None = None
    knives: dict[str, int] = Field({}, max_length=1)


def check_cooks(cooks: list[Cook], config: Config) -> Iterable[Problem]:
    names = {cook.name for cook in cooks}
    menu = config.get(MENU)
    for index, cook in enumerate(cooks):
        if cook.boss is not None and cook.boss not in names:
            message = f"cook '{cook.name}' obeys '{cook.boss}', who is not there"
            yield Problem(("cooks", index, "boss"), message, "coulisse.E901")
        for dish in cook.dishes:
            if dish not in menu:
                message = f"cook '{cook.name}' cooks '{dish}', which is not on it"
                yield Problem(("cooks", index, "dishes"), message, "coulisse.E902")


COOKS: Section[list[Cook]] = Section(
    key="cooks",
    shape=list[Cook],
    default=list,
    noun="cook",
    required=True,
    check=check_cooks,
)
KITCHEN = Section(key="kitchen", shape=Kitchen, default=Kitchen, applies="restart")
MENU: Section[dict[str, int]] = Section(
    key="menu", shape=dict[str, int], default=dict, noun="dish"
)

COOK = "cooks: [{name: ann}]\n"
"""The least that is valid."""


@pytest.fixture(autouse=True)
def _stand_ins(request: pytest.FixtureRequest) -> None:
    settings = request.getfixturevalue("settings")
    if "database" not in request.fixturenames:
        settings.COULISSE_OVERLAYS = ""
    if "real_sections" in request.fixturenames:
        return
    here = "tests.config.conftest"
    settings.COULISSE_SECTIONS = [
        f"{here}.COOKS",
        f"{here}.KITCHEN",
        f"{here}.MENU",
        "config.config.VARS",
    ]


@pytest.fixture
def real_sections() -> None:
    """Asks for the sections of settings instead of the stand-ins."""


@pytest.fixture(autouse=True)
def _nothing_in_force() -> Iterable[None]:
    before = live._current
    live.set_current(None)
    yield
    live.set_current(before)


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings) -> Path:
    """`coulisse.yaml` in a directory of its own, which is the working directory."""
    monkeypatch.chdir(tmp_path)
    settings.COULISSE_CONFIG = tmp_path / "coulisse.yaml"
    return settings.COULISSE_CONFIG


@pytest.fixture
def load(file: Path) -> Callable[[str], Config]:
    """Writes the text and loads it."""

    def write_and_load(text: str) -> Config:
        file.write_text(text, encoding="utf-8")
        return loader.load_file(file)

    return write_and_load


@pytest.fixture
def refusal(load: Callable[[str], Config]) -> Callable[[str], str]:
    """Loads an invalid text and returns the error message."""

    def refused(text: str) -> str:
        with pytest.raises(ConfigInvalid) as caught:
            load(text)
        return str(caught.value)

    return refused
