"""Every change made in the studio is audited once, with its actor.

Refused and repeated requests are not audited, and no audit entry contains a secret.
"""

import re
from pathlib import Path

import orjson
import pytest
from django.conf import settings as django_settings
from django.contrib import admin
from django.urls import get_resolver

from access.models import AuditEntry
from access.schemas import AuditLogEntry
from admin_base.views import PageView
from config.sections import registered_sections
from processes.supervision import state_directory
from studio.configuration.file_views import SECTION_URLS
from tests.studio.openapi import document_validation
from tests.studio.site_wide.test_addresses import (
    URLCONF,
    list_patterns,
    write_operations,
)
from tests.studio.site_wide.write_operations import (
    CONFIG_TEXT,
    KINDS,
    SECRETS,
    Write,
    WriteTargets,
    list_writes,
)

pytestmark = pytest.mark.database

READ_ONLY_POSTS = {
    *(("POST", f"/admin/{kind}/check") for kind in KINDS),
    *(("POST", f"/admin/{kind}/somewhat/check") for kind in KINDS),
    ("POST", "/admin/config/check"),
    ("POST", "/admin/mcp/somewhat/tools"),
    ("POST", "/admin/playground/turns"),
}
"""They change nothing; the playground records a turn."""
UNDOCUMENTED = {("PUT", "/admin/config/edit")}
"""For browsers; scripts use `/admin/config`."""
OTHER_VIEWS = {"admin", "admin/openapi.json", "admin/jsi18n/", "admin/logout/"}
"""They are read-only."""
DOCS = Path(django_settings.BASE_DIR) / "docs" / "audit.md"


@pytest.fixture
def targets(operator, configure, tmp_path, settings):
    settings.COULISSE_STATE_DIR = tmp_path / ".coulisse"
    files = state_directory.current_state()
    files.prepare()
    configure(CONFIG_TEXT)
    with WriteTargets(operator, files) as targets:
        yield targets


def new_entries(since: int) -> list[AuditEntry]:
    return list(AuditEntry.objects.filter(pk__gt=since).order_by("pk"))


def newest_id() -> int:
    return AuditEntry.objects.order_by("-pk").values_list("pk", flat=True).first() or 0


def send(targets: WriteTargets, write: Write, path: str, body: object):
    response = targets.http.request(write.method, path, json=body)
    if (write.method, write.route) not in UNDOCUMENTED:
        assert [*document_validation.find_problems(write.method, path, response)] == []
    return response


def test_every_change_is_audited_once(targets) -> None:
    problems, done = [], set()
    for write in list_writes(targets):
        done.add((write.method, write.route))
        before = newest_id()
        response = send(targets, write, write.path, write.body)
        assert response.status_code < 300, (write, response.text)
        entries = new_entries(before)
        place = (write.method, write.path)
        if [entry.action for entry in entries] != [write.action]:
            problems.append((place, [entry.action for entry in entries]))
            continue
        (entry,) = entries
        line = orjson.dumps(AuditLogEntry.model_validate(entry).model_dump()).decode()
        problems += [(place, line) for secret in SECRETS if secret in line]
        if entry.actor != "studio: olga" or "127.0.0.1" not in entry.origin:
            problems.append((place, entry.actor, entry.origin))
        if write.target not in entry.target:
            problems.append((place, entry.target))
        path, body = write.unaudited or (write.path, write.body)
        before = newest_id()
        response = send(targets, write, path, body)
        if entries := new_entries(before):
            idle = [(entry.action, entry.details) for entry in entries]
            problems.append((place, response.status_code, idle))
    assert problems == []
    audited = {operation for operation in done if operation[0] != "GET"}
    expected = audited | READ_ONLY_POSTS
    # The bulk actions of lists run the actions of rows, which are tried here. Browsers
    # post the forms whose fields scripts send by PATCH.
    bulk = {
        ("POST", re.sub("<.*?>", "somewhat", f"/admin/{path}"))
        for table in admin.site._registry.values()
        for path in [table.path, *table.parent_paths]
    } - audited
    forms = {
        ("POST", f"{table.address}/somewhat")
        for table in admin.site._registry.values()
        if table.is_editable
    }
    # The section of the variables, tried here, stands for the others.
    sections = {
        (method, f"/admin/settings/{key}")
        for key in registered_sections().keys() - SECTION_URLS.keys()
        for method in ("PUT", "DELETE")
    }
    assert set(write_operations()) == expected | bulk | forms | sections


BODIES = {
    "deep": ("application/json", b'{"a":' * 400 + b"1" + b"}" * 400),
    "deeper": ("application/json", b"[" * 20_000 + b"]" * 20_000),
    "half": ("application/json", b'{"name": "\\ud800", "yaml": "\\ud800"}'),
    "list": ("application/json", b"[1]"),
    "number": ("application/json", b"3"),
    "large": ("application/json", b'{"name": "' + b"x" * 2**21 + b'"}'),
    "form": ("application/x-www-form-urlencoded", b"a=%ff&yaml=%5b"),
    "fields": ("application/x-www-form-urlencoded", b"a=1&" * 2000),
    "parts": ("multipart/form-data", b"nonsense"),
    "tag": ("application/yaml", b"name: !foo x\n"),
}
"""No address accepts them."""


@pytest.mark.parametrize("kind", BODIES)
def test_invalid_bodies_are_refused(targets, kind) -> None:
    problems = []
    before = newest_id()
    content, body = BODIES[kind]
    for write in list_writes(targets):
        if write.body is None or write.method == "DELETE":
            continue
        for accept in ("application/json", "text/html"):
            headers = {"Content-Type": content, "Accept": accept}
            response = targets.http.request(
                write.method, write.path, content=body, headers=headers
            )
            if not 400 <= response.status_code < 500:
                problems.append(
                    (write.method, write.path, accept, response.status_code)
                )
    assert problems == []
    assert new_entries(before) == []


def test_read_only_posts_change_nothing(targets) -> None:
    draft = {"yaml": "name: extra\n"}
    message = {"agent": "tuned", "user": "asks", "message": "Hello!", "incognito": True}
    requests = {
        **{f"/admin/{kind}/check": draft for kind in KINDS},
        **{f"/admin/{kind}/{KINDS[kind][1]}/check": draft for kind in KINDS},
        "/admin/config/check": draft,
        "/admin/mcp/notes/tools": None,
        "/admin/playground/turns": message,
    }
    assert len(requests) == len(READ_ONLY_POSTS)
    before = newest_id()
    for path, body in requests.items():
        response = targets.http.post(path, json=body)
        assert response.status_code == 200, (path, response.text)
    assert new_entries(before) == []


def test_every_route_is_covered() -> None:
    others = {
        route
        for route, pattern in list_patterns("", get_resolver(URLCONF))
        if not issubclass(getattr(pattern.callback, "cls", object), PageView)
    }
    assert others == OTHER_VIEWS


def test_audit_actions_are_documented(targets) -> None:
    text = DOCS.read_text()
    actions = {write.action for write in list_writes(targets)}
    assert {item for item in actions if f"`{item}`" not in text} == set()
