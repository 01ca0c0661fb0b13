"""Every change made in the studio is in the audit: once, under who made it.

What is refused, or changes nothing, leaves no word there; no word holds a secret.
"""

from pathlib import Path

import orjson
import pytest
from django.conf import settings as django_settings

from access.audit import formatting
from access.models import AuditEntry
from processes.supervision import state_directory
from studio.base.views import StudioView
from studio.urls import urlpatterns
from tests.studio import described
from tests.studio.deeds import KINDS, SECRETS, STAGE, Cast, Write, changes
from tests.studio.test_every_address import NOT_YET, writes

pytestmark = pytest.mark.database

ASKED = {
    *(("POST", f"/admin/{kind}/check") for kind in KINDS),
    *(("POST", f"/admin/{kind}/somewhat/check") for kind in KINDS),
    ("POST", "/admin/config/check"),
    ("POST", "/admin/mcp/somewhat/tools"),
    ("POST", "/admin/playground/turns"),
}
"""Nothing changes there: turns are recorded as turns."""
IN_NO_DESCRIPTION = {("PUT", "/admin/config/edit")}
"""For browsers: programs write at `/admin/config`."""
NO_FACES = {"openapi.json", "tables/"}
"""What they show is read alone."""
DOCS = Path(django_settings.BASE_DIR) / "docs" / "audit.md"


@pytest.fixture
def stage(operator, configure, tmp_path, settings):
    settings.COULISSE_STATE_DIR = tmp_path / ".coulisse"
    files = state_directory.current_state()
    files.prepare()
    configure(STAGE)
    with Cast(operator, files) as cast:
        yield cast


def words(since: int) -> list[AuditEntry]:
    return list(AuditEntry.objects.filter(pk__gt=since).order_by("pk"))


def newest() -> int:
    return AuditEntry.objects.order_by("-pk").values_list("pk", flat=True).first() or 0


def ask(stage: Cast, write: Write, path: str, body: object):
    answer = stage.http.request(write.method, path, json=body)
    if (write.method, write.route) not in IN_NO_DESCRIPTION:
        assert [*described.wrong(write.method, path, answer)] == []
    return answer


def test_every_change_is_audited_once(stage) -> None:
    wrong, done = [], set()
    for write in changes(stage):
        done.add((write.method, write.route))
        before = newest()
        answer = ask(stage, write, write.path, write.body)
        assert answer.status_code < 300, (write, answer.text)
        told = words(before)
        place = (write.method, write.path)
        if [entry.action for entry in told] != [write.action]:
            wrong.append((place, [entry.action for entry in told]))
            continue
        (entry,) = told
        said = orjson.dumps(formatting.as_json(entry)).decode()
        wrong += [(place, said) for secret in SECRETS if secret in said]
        if entry.actor != "studio: olga" or "127.0.0.1" not in entry.origin:
            wrong.append((place, entry.actor, entry.origin))
        if write.target not in entry.target:
            wrong.append((place, entry.target))
        path, body = write.then or (write.path, write.body)
        before = newest()
        answer = ask(stage, write, path, body)
        if told := words(before):
            idle = [(entry.action, entry.details) for entry in told]
            wrong.append((place, answer.status_code, idle))
    assert wrong == []
    assert set(writes()) == {it for it in done if it[0] != "GET"} | ASKED | {
        ("PUT", NOT_YET)
    }


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
"""No address takes them; yet some may be told to browsers in a form again."""


@pytest.mark.parametrize("kind", BODIES)
def test_invalid_bodies_are_refused(stage, kind) -> None:
    wrong = []
    before = newest()
    content, body = BODIES[kind]
    for write in changes(stage):
        if write.body is None or write.method == "DELETE":
            continue
        for accept in ("application/json", "text/html"):
            headers = {"Content-Type": content, "Accept": accept}
            answer = stage.http.request(
                write.method, write.path, content=body, headers=headers
            )
            if not 400 <= answer.status_code < 500:
                wrong.append((write.method, write.path, accept, answer.status_code))
    assert wrong == []
    assert words(before) == []


def test_read_only_posts_change_nothing(stage) -> None:
    draft = {"yaml": "name: extra\n"}
    said = {"agent": "tuned", "user": "asks", "message": "Hello!", "incognito": True}
    asked = {
        **{f"/admin/{kind}/check": draft for kind in KINDS},
        **{f"/admin/{kind}/{KINDS[kind][1]}/check": draft for kind in KINDS},
        "/admin/config/check": draft,
        "/admin/mcp/notes/tools": None,
        "/admin/playground/turns": said,
    }
    assert len(asked) == len(ASKED)
    before = newest()
    for path, body in asked.items():
        answer = stage.http.post(path, json=body)
        assert answer.status_code == 200, (path, answer.text)
    assert words(before) == []


def test_every_route_is_covered() -> None:
    known = {
        str(it.pattern)
        for it in urlpatterns
        if issubclass(getattr(it.callback, "cls", object), StudioView)
    }
    assert {str(it.pattern) for it in urlpatterns} - known == NO_FACES


def test_audit_actions_are_documented(stage) -> None:
    told = DOCS.read_text()
    actions = {write.action for write in changes(stage)}
    assert {it for it in actions if f"`{it}`" not in told} == set()
