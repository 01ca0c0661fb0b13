"""What holds for every address of the studio, whatever it is about."""

import re
from collections.abc import Iterator

import pytest
from django.conf import settings
from django.urls import URLPattern, URLResolver
from drf_spectacular.generators import SchemaGenerator
from ruamel.yaml import YAML

from studio.base.views import StudioView
from studio.templatetags import live
from studio.urls import urlpatterns

pytestmark = pytest.mark.database

METHODS = {"GET", "POST", "PUT", "PATCH", "DELETE"}
NAMES = {"uuid": "00000000-0000-0000-0000-000000000000"}
NOT_HTTP = "/admin/live/events"
NOT_YET = "/admin/storage"
OF_THE_PAST = ("/admin/judges/somewhat/scores", "/admin/smoke/somewhat/runs")
"""Kept of what is in no configuration any more."""
ANYBODY = "/admin/users/somewhat"
"""Every name may be a user's."""


def faces() -> Iterator[tuple[str, type[StudioView], set[str]]]:
    """Yield every face with an address of it and its methods."""
    for pattern in urlpatterns:
        if isinstance(pattern, URLResolver):
            continue
        face = getattr(pattern.callback, "cls", None)
        if face is None or not issubclass(face, StudioView):
            continue
        offered = {name.upper() for name in face.http_method_names}
        has = {method for method in METHODS if hasattr(face, method.lower())}
        if has:
            yield address(pattern), face, has & offered


def address(pattern: URLPattern) -> str:
    """Return an address, with something in place of every name."""
    route = str(pattern.pattern)
    for name, converter in pattern.pattern.converters.items():
        kind = type(converter).__name__.removesuffix("Converter").lower()
        kind = kind.replace("string", "str")
        route = route.replace(f"<{kind}:{name}>", NAMES.get(kind, "somewhat"))
    return f"/admin/{route}"


FACES = list(faces())


def writes() -> Iterator[tuple[str, str]]:
    for path, _, methods in FACES:
        yield from ((method, path) for method in sorted(methods - {"GET"}))


def with_bodies() -> set[tuple[str, str]]:
    """Return what is sent a body, as it is described."""
    generator = SchemaGenerator(urlconf=settings.COULISSE_STUDIO_URLCONF)
    described = generator.get_schema(request=None, public=True)
    return {
        (method.upper(), path)
        for path, methods in described["paths"].items()
        for method, operation in methods.items()
        if operation.get("requestBody", {}).get("required")
    }


def test_routes_are_collected(server) -> None:
    assert len(FACES) > 60
    assert not any("<" in path for path, *_ in FACES)


def test_viewers_cannot_write(viewer) -> None:
    answers = {
        (method, path): viewer.request(method, path, json={}).status_code
        for method, path in writes()
    }
    assert len(answers) > 50
    assert {place: code for place, code in answers.items() if code != 403} == {}


def test_unauthenticated_requests_cannot_write(running, viewer) -> None:
    viewer.auth = None
    answers = {
        (method, path): viewer.request(method, path, json={}).status_code
        for method, path in writes()
    }
    assert {place: code for place, code in answers.items() if code != 401} == {}


def test_other_methods_are_405_with_allow(script) -> None:
    wrong = {}
    for path, _, methods in FACES:
        for method in METHODS - methods:
            answer = script.request(method, path)
            allowed = set(answer.headers.get("Allow", "").split(", ")) & METHODS
            if answer.status_code == 404 and ("somewhat" in path or path == NOT_YET):
                continue  # Said first of what there is not, whatever the method.
            if answer.status_code != 405 or allowed != methods:
                wrong[method, path] = (answer.status_code, allowed)
    assert wrong == {}


def test_links_encode_names() -> None:
    # A browser takes the steps of `a/../b` otherwise.
    wrong = {
        template.name
        for template in (settings.BASE_DIR / "templates").rglob("*.html")
        if re.search(r'\|urlencode(?!:"")', template.read_text())
    }
    assert wrong == set()
    assert 'href="/admin/triggers/a%2F..%2Fb"' in live.task_origin("trigger:a/../b")


def test_image_accept_header_is_406(script) -> None:
    answers = {
        path: script.get(path, headers={"Accept": "image/png"}).status_code
        for path, _, methods in FACES
        if "GET" in methods and path != NOT_HTTP
    }
    assert {path: code for path, code in answers.items() if code != 406} == {}


@pytest.mark.parametrize(
    ("kind", "body", "status"),
    [
        ("text/plain", b"name: x", 415),
        ("application/json", b'{"name": ', 400),
        ("application/json", b"\xff", 400),
        ("application/yaml", b"name: [", 400),
    ],
)
def test_unreadable_bodies_are_refused(
    script, kind: str, body: bytes, status: int
) -> None:
    answers = {
        (method, path): script.request(
            method,
            path.replace("{", "").replace("}", ""),
            content=body,
            headers={"Content-Type": kind},
        )
        for method, path in with_bodies()
    }
    assert len(answers) >= 20
    wrong = {
        place: (answer.status_code, answer.text[:100])
        for place, answer in answers.items()
        if answer.status_code != status and answer.status_code != 404
    }
    assert wrong == {}


def test_existing_resources_are_served_in_all_formats(script) -> None:
    for path, face, methods in FACES:
        if "GET" not in methods or "somewhat" in path or path in (NOT_HTTP, NOT_YET):
            continue
        told = script.get(path, headers={"Accept": "application/json"})
        assert told.status_code == 200, path
        assert told.headers["Content-Type"].startswith("application/json"), path
        yaml = script.get(path, headers={"Accept": "application/yaml"})
        assert yaml.headers["Content-Type"].startswith("application/yaml"), path
        YAML(typ="safe").load(yaml.text)
        if face.template:
            page = script.get(path, headers={"Accept": "text/html"})
            assert page.status_code == 200, path
            assert page.headers["Content-Type"].startswith("text/html"), path
            assert "<h1>" in page.text, path


def test_missing_resources_are_404_in_all_formats(script) -> None:
    script.headers["Accept"] = "*/*"
    for path, _, methods in FACES:
        if "GET" not in methods or "/somewhat" not in path or path in OF_THE_PAST:
            continue
        if path.startswith(ANYBODY):
            continue
        for kind in ("application/json", "application/yaml", "text/html"):
            answer = script.get(path, headers={"Accept": kind})
            assert answer.status_code in (404, 406), (path, kind)
            told = answer.headers["Content-Type"]
            assert answer.status_code == 406 or told.startswith(kind), (path, kind)
