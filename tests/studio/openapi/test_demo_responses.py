"""Responses about demo data match the OpenAPI document, as JSON and as YAML."""

from collections.abc import Iterator
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path

import httpx2
import pytest
from django.core.management import call_command
from django.db import transaction
from django_celery_beat.models import IntervalSchedule, PeriodicTask
from ruamel.yaml import YAML

from admin_base.formats import data_formats
from config import live
from config.starters import starter_file
from demo import sample_users
from demo.generator import DemoGenerator, DemoSize
from demo.management.commands import demo
from studio.openapi.document import iterate_operations
from tests.studio.openapi import document_validation
from tests.studio.site_wide.write_operations import KINDS
from triggers.models import PeriodicAgentTask

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
ID_FIELDS = {
    "accounts": "username",
    "audit": "id",
    "groups": "id",
    "agents": "name",
    "experiments": "name",
    "facts": "id",
    "feedback": "id",
    "incidents": "id",
    "judges": "name",
    "maintenance-jobs": "id",
    "messages": "id",
    "periodic-tasks": "id",
    "scores": "id",
    "sessions": "id",
    "smoke": "name",
    "smoke-conversations": "id",
    "smoke/runs": "runs",
    "tasks": "id",
    "threads": "id",
    "tokens": "id",
    "trigger-runs": "id",
    "triggers": "name",
    "turns": "id",
    "usage-counters": "id",
    "users": "id",
}
"""Lists, and the field that identifies an object."""
QUERIES = {
    "spend": ["by=agent", "by=day", "by=model", "by=provider", "by=token", "by=user"],
    "users/{user}/facts": ["q=seats", "q=seats&in=all", "status=all", "category=fact"],
    "tokens": ["all=1"],
    "tasks": ["state=errored", "kind=judge"],
    "turns": ["outcome=error"],
    "judges/{name}/past-replies": ["since=30d&limit=1000"],
    "experiments/{name}/results": ["since=7d"],
}
"""Additional queries by route."""
CHANGING_PATHS = ("/admin/", "/admin/live", "/admin/spend", "/admin/openapi.json")
"""Their responses change with time."""
MAX_OBJECTS = 12
"""The largest number of objects per list."""


@pytest.fixture(scope="module")
def demo_data(database: None, django_db_blocker) -> Iterator[None]:
    with django_db_blocker.unblock():
        with transaction.atomic():
            DemoGenerator(demo.load_demo_config(), SIZE, datetime.now(UTC)).fill()
        yield
        call_command("demo", "--clear", stdout=StringIO())


@pytest.fixture
def studio(
    demo_data, running, configure, tmp_path, settings
) -> Iterator[httpx2.Client]:
    settings.COULISSE_STATE_DIR = tmp_path / ".coulisse"
    settings.COULISSE_STATE_DIR.mkdir()
    configure((Path(starter_file.TEMPLATES) / "demo.yaml").read_text() + MORE)
    PeriodicAgentTask.objects.follow_file(live.current())
    hourly, _ = IntervalSchedule.objects.get_or_create(every=1, period="hours")
    PeriodicTask.objects.get_or_create(name="job", interval=hourly)
    with httpx2.Client(
        base_url=running, timeout=60, verify=False, headers=JSON
    ) as client:
        yield client


NOT_IN_DEMO = (
    "files",
    "mcp-sign-ins",
    "override-history",
    "overrides",
)


def list_ids(studio: httpx2.Client) -> dict[str, list[str]]:
    """Return the ids of existing objects, by list."""
    found: dict[str, list[str]] = {}
    for place, field in ID_FIELDS.items():
        data = studio.get(f"/admin/{place}").json()["data"]
        if field == "runs":
            found[place] = [run["id"] for batch in data for run in batch["runs"]]
        else:
            found[place] = [each[field] for each in data]
        assert found[place], place
        found[place] = found[place][:MAX_OBJECTS]
    found |= {place: [] for place in NOT_IN_DEMO}
    for place in ("mcp", "providers"):
        found[place] = list(studio.get(f"/admin/{place}").json())
    found["users"] = [
        str(user.user_id) for user in sample_users.list_users(SIZE.users)
    ][:3]
    return found


def list_addresses(studio: httpx2.Client) -> Iterator[str]:
    """Yield the address of every GET operation, for existing objects."""
    objects = list_ids(studio)
    for path, method, _ in iterate_operations(document_validation.load_document()):
        if method != "get":
            continue
        place, brace, rest = path.partition("/{")
        place = place.removeprefix("/admin/")
        _, _, rest = rest.partition("}")
        for name in objects[place] if brace else [""]:
            address = f"/admin/{place}/{name}{rest}" if brace else path
            if "{id}" in address:
                facts = studio.get(f"/admin/users/{name}/facts?status=all").json()
                ids = [fact["id"] for fact in facts["data"][:MAX_OBJECTS]]
                yield from (address.replace("{id}", each) for each in ids)
                continue
            yield address
            for query in QUERIES.get(path.removeprefix("/admin/"), ()):
                yield f"{address}?{query}"


def test_yaml_equals_json(studio) -> None:
    problems, tried = [], set()
    for address in list_addresses(studio):
        path = address.partition("?")[0]
        steps = path.split("/")
        place = (*steps[2:3], len(steps), steps[-1] if len(steps) > 4 else "")
        if path in CHANGING_PATHS or place in tried or _is_entry(steps):
            continue
        tried.add(place)
        response = studio.get(address, headers={"Accept": "application/yaml"})
        if response.status_code == 406:
            assert path.endswith("/export")
            continue
        message = studio.get(address).json()
        read = YAML(typ="safe").load(response.text)
        # The YAML of an unset section is empty.
        if data_formats.to_plain_data(read) != message and (read or message):
            problems.append(address)
    assert problems == []
    assert len(tried) > 40


def test_yaml_escapes_control_characters() -> None:
    message = {"text": "one\n\x1b[31mtwo\ttabbed", "plain": "one\ntwo\tthree"}
    text = data_formats.dump_yaml(message)
    assert YAML(typ="safe").load(text) == message
    assert "plain: |" in text


def _is_entry(steps: list[str]) -> bool:
    """Return whether a path is an entry of the YAML file."""
    return len(steps) == 4 and steps[2] in KINDS and steps[3] != "runs"


def test_responses_match_the_openapi_document(studio) -> None:
    problems, requests = [], 0
    for address in list_addresses(studio):
        response = studio.get(address)
        assert response.status_code == 200, (address, response.text)
        problems += document_validation.find_problems("GET", address, response)
        requests += 1
    assert "\n".join(dict.fromkeys(problems)) == ""
    assert requests > 150
