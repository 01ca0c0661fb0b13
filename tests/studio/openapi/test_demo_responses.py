"""What is told, of a month like a real one, is what the description says."""

from collections.abc import Iterator
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path

import httpx2
import pytest
from django.core.management import call_command
from django.db import transaction
from ruamel.yaml import YAML

from config.starters import starter_file
from demo import sample_users
from demo.generator import DemoGenerator, DemoSize
from demo.management.commands import demo
from studio.base import formats
from studio.openapi.document import iterate_operations
from tests.studio import described
from tests.studio.deeds import KINDS

pytestmark = pytest.mark.database

JSON = {"Accept": "application/json"}
SIZE = DemoSize(users=6, turns=90, days=6)
MORE = """
mcp:
  notes: {url: "http://127.0.0.1:9/notes", headers: {A: "Bearer ${NOTES:-none}"}}
sidecars:
  - {name: bridge, command: /usr/bin/bridge, restart: always}
vars: {house: The Globe}
"""
PLACES = {
    "agents": "name",
    "experiments": "name",
    "judges": "name",
    "smoke": "name",
    "smoke/runs": "runs",
    "tasks": "id",
    "tokens": "id",
    "triggers": "name",
    "turns": "id",
    "users": "id",
}
"""Lists, and which field of theirs leads to one of them."""
EACH = {
    "spend": ["by=agent", "by=day", "by=model", "by=provider", "by=token", "by=user"],
    "users/{user}/facts": ["q=seats", "q=seats&in=all", "status=all", "category=fact"],
    "tokens": ["all=1"],
    "tasks": ["state=errored", "kind=judge"],
    "turns": ["outcome=error"],
    "judges/{name}/past-replies": ["since=30d&limit=1000"],
    "experiments/{name}/results": ["since=7d"],
}
"""What else they are asked."""
MOVING = ("/admin/", "/admin/live", "/admin/spend", "/admin/openapi.json")
"""They tell the time."""
ENOUGH = 12
"""Of each list."""


@pytest.fixture(scope="module")
def month(database: None, django_db_blocker) -> Iterator[None]:
    with django_db_blocker.unblock():
        with transaction.atomic():
            DemoGenerator(demo.load_demo_config(), SIZE, datetime.now(UTC)).fill()
        yield
        call_command("demo", "--clear", stdout=StringIO())


@pytest.fixture
def studio(month, running, configure, tmp_path, settings) -> Iterator[httpx2.Client]:
    settings.COULISSE_STATE_DIR = tmp_path / ".coulisse"
    settings.COULISSE_STATE_DIR.mkdir()
    configure((Path(starter_file.TEMPLATES) / "demo.yaml").read_text() + MORE)
    with httpx2.Client(
        base_url=running, timeout=60, verify=False, headers=JSON
    ) as client:
        yield client


def names(studio: httpx2.Client) -> dict[str, list[str]]:
    """Return the names there are, by the lists they are in."""
    found: dict[str, list[str]] = {}
    for place, field in PLACES.items():
        data = studio.get(f"/admin/{place}").json()["data"]
        if field == "runs":
            found[place] = [run["id"] for batch in data for run in batch["runs"]]
        else:
            found[place] = [each[field] for each in data]
        assert found[place], place
        found[place] = found[place][:ENOUGH]
    for place in ("mcp", "providers"):
        found[place] = list(studio.get(f"/admin/{place}").json())
    found["users"] = [
        str(user.user_id) for user in sample_users.list_users(SIZE.users)
    ][:3]
    return found


def addresses(studio: httpx2.Client) -> Iterator[str]:
    """Yield every address that is described as to be read, with what there is."""
    known = names(studio)
    for path, method, _ in iterate_operations(described.whole()):
        if method != "get":
            continue
        place, brace, rest = path.partition("/{")
        place = place.removeprefix("/admin/")
        _, _, rest = rest.partition("}")
        for name in known[place] if brace else [""]:
            address = f"/admin/{place}/{name}{rest}" if brace else path
            if "{id}" in address:
                facts = studio.get(f"/admin/users/{name}/facts?status=all").json()
                ids = [fact["id"] for fact in facts["data"][:ENOUGH]]
                yield from (address.replace("{id}", each) for each in ids)
                continue
            yield address
            for query in EACH.get(path.removeprefix("/admin/"), ()):
                yield f"{address}?{query}"


def test_yaml_equals_json(studio) -> None:
    wrong, tried = [], set()
    for address in addresses(studio):
        path = address.partition("?")[0]
        steps = path.split("/")
        place = (*steps[2:3], len(steps), steps[-1] if len(steps) > 4 else "")
        if path in MOVING or place in tried or _is_as_written(steps):
            continue
        tried.add(place)
        answer = studio.get(address, headers={"Accept": "application/yaml"})
        if answer.status_code == 406:
            assert path.endswith("/export")
            continue
        said = studio.get(address).json()
        read = YAML(typ="safe").load(answer.text)
        # Of a section that is not there, YAML has nothing to say.
        if formats.to_plain_data(read) != said and (read or said):
            wrong.append(address)
    assert wrong == []
    assert len(tried) > 40


def test_yaml_escapes_control_characters() -> None:
    said = {"text": "one\n\x1b[31mtwo\ttabbed", "plain": "one\ntwo\tthree"}
    text = formats.dump_yaml(said)
    assert YAML(typ="safe").load(text) == said
    assert "plain: |" in text


def _is_as_written(steps: list[str]) -> bool:
    """Return whether it is an entry, which as YAML is told as it is written."""
    return len(steps) == 4 and steps[2] in KINDS and steps[3] != "runs"


def test_responses_match_the_openapi_document(studio) -> None:
    wrong, asked = [], 0
    for address in addresses(studio):
        answer = studio.get(address)
        assert answer.status_code == 200, (address, answer.text)
        wrong += described.wrong("GET", address, answer)
        asked += 1
    assert "\n".join(dict.fromkeys(wrong)) == ""
    assert asked > 150
