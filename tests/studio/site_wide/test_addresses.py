"""Rules for all addresses: roles, methods, formats and errors."""

import re
from collections.abc import Iterator

import pytest
from django.conf import settings
from django.urls import URLPattern, URLResolver, get_resolver
from drf_spectacular.generators import SchemaGenerator
from ruamel.yaml import YAML

from admin_base.model_pages.model_views import AddView, DeleteView
from admin_base.views import PageView
from studio.base.views import NotFoundView

pytestmark = pytest.mark.database

URLCONF = settings.COULISSE_STUDIO_URLCONF
METHODS = {"GET", "POST", "PUT", "PATCH", "DELETE"}
NAMES = {"uuid": "00000000-0000-0000-0000-000000000000"}
WEBSOCKET_PATH = "/admin/live/events"
DELETED_OBJECT_PATHS = ("/admin/judges/somewhat/scores", "/admin/smoke/somewhat/runs")
"""They also list rows of objects that are no longer configured."""
REDIRECTED_PAGE = "/admin/memory"
ANY_USER_PATH = "/admin/users/somewhat"
"""Any name may be that of a user."""


def list_views() -> Iterator[tuple[str, type[PageView], set[str]]]:
    """Yield each view with an address and its methods."""
    for route, pattern in list_patterns("", get_resolver(URLCONF)):
        view = getattr(pattern.callback, "cls", None)
        if view is None or not issubclass(view, PageView) or view is NotFoundView:
            continue
        offered = {name.upper() for name in view.http_method_names}
        has = {method for method in METHODS if hasattr(view, method.lower())}
        if has and not issubclass(view, AddView | DeleteView):
            yield f"/{route}", view, has & offered


def list_patterns(
    prefix: str, resolver: URLResolver
) -> Iterator[tuple[str, URLPattern]]:
    """Yield addresses, with placeholders for parameters, and their patterns."""
    for pattern in resolver.url_patterns:
        route = prefix + str(pattern.pattern)
        for name, converter in pattern.pattern.converters.items():
            kind = type(converter).__name__.removesuffix("Converter").lower()
            kind = kind.replace("string", "str")
            route = route.replace(f"<{kind}:{name}>", NAMES.get(kind, "somewhat"))
        if isinstance(pattern, URLResolver):
            yield from list_patterns(route, pattern)
        else:
            yield route, pattern


VIEWS = list(list_views())


def write_operations() -> Iterator[tuple[str, str]]:
    for path, _, methods in VIEWS:
        yield from ((method, path) for method in sorted(methods - {"GET"}))


def operations_with_bodies() -> set[tuple[str, str]]:
    """Return the operations that require a body, by the OpenAPI document."""
    generator = SchemaGenerator(urlconf=settings.COULISSE_STUDIO_URLCONF)
    document = generator.get_schema(request=None, public=True)
    return {
        (method.upper(), path)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
        if operation.get("requestBody", {}).get("required")
    }


def test_routes_are_collected(server) -> None:
    assert len(VIEWS) > 60
    assert not any("<" in path for path, *_ in VIEWS)


def test_viewers_cannot_write(viewer) -> None:
    responses = {
        (method, path): viewer.request(method, path, json={}).status_code
        for method, path in write_operations()
    }
    assert len(responses) > 50
    assert {place: code for place, code in responses.items() if code != 403} == {}


def test_unauthenticated_requests_cannot_write(running, viewer) -> None:
    viewer.auth = None
    responses = {
        (method, path): viewer.request(method, path, json={}).status_code
        for method, path in write_operations()
    }
    assert {place: code for place, code in responses.items() if code != 401} == {}


def test_other_methods_are_405_with_allow(script) -> None:
    problems = {}
    for path, _, methods in VIEWS:
        for method in METHODS - methods:
            response = script.request(method, path)
            allowed = set(response.headers.get("Allow", "").split(", ")) & METHODS
            if response.status_code == 404 and "somewhat" in path:
                continue  # A missing object is reported first.
            if response.status_code != 405 or allowed != methods:
                problems[method, path] = (response.status_code, allowed)
    assert problems == {}


def test_links_encode_names() -> None:
    # Otherwise a browser would resolve `a/../b`.
    problems = {
        template.name
        for template in (settings.BASE_DIR / "templates").rglob("*.html")
        if re.search(r'\|urlencode(?!:"")', template.read_text())
    }
    assert problems == set()


def test_image_accept_header_is_406(script) -> None:
    responses = {
        path: script.get(path, headers={"Accept": "image/png"}).status_code
        for path, _, methods in VIEWS
        if "GET" in methods and path != WEBSOCKET_PATH
    }
    assert {path: code for path, code in responses.items() if code != 406} == {}


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
    responses = {
        (method, path): script.request(
            method,
            path.replace("{", "").replace("}", ""),
            content=body,
            headers={"Content-Type": kind},
        )
        for method, path in operations_with_bodies()
    }
    assert len(responses) >= 20
    problems = {
        place: (response.status_code, response.text[:100])
        for place, response in responses.items()
        if response.status_code != status and response.status_code != 404
    }
    assert problems == {}


def test_existing_resources_are_served_in_all_formats(script) -> None:
    for path, view, methods in VIEWS:
        if "GET" not in methods or "somewhat" in path or path == WEBSOCKET_PATH:
            continue
        response = script.get(path, headers={"Accept": "application/json"})
        assert response.status_code == 200, path
        assert response.headers["Content-Type"].startswith("application/json"), path
        yaml = script.get(path, headers={"Accept": "application/yaml"})
        assert yaml.headers["Content-Type"].startswith("application/yaml"), path
        YAML(typ="safe").load(yaml.text)
        if view.template and path != REDIRECTED_PAGE:
            page = script.get(path, headers={"Accept": "text/html"})
            assert page.status_code == 200, path
            assert page.headers["Content-Type"].startswith("text/html"), path
            assert "<h1>" in page.text, path


def test_missing_resources_are_404_in_all_formats(script) -> None:
    script.headers["Accept"] = "*/*"
    for path, _, methods in VIEWS:
        if (
            "GET" not in methods
            or "/somewhat" not in path
            or path in DELETED_OBJECT_PATHS
        ):
            continue
        if path.startswith(ANY_USER_PATH):
            continue
        for kind in ("application/json", "application/yaml", "text/html"):
            response = script.get(path, headers={"Accept": kind})
            assert response.status_code in (404, 406), (path, kind)
            content_type = response.headers["Content-Type"]
            assert response.status_code == 406 or content_type.startswith(kind), (
                path,
                kind,
            )
