"""The OpenAPI document of the studio, for authors of clients.

Views are described where they are, by `@extend_schema` or their own schema class. This
module adds the menu's groups, security and error responses, and removes the media types
that only browsers use.
"""

import re
from collections.abc import Iterator
from functools import cache
from typing import Any, cast

from django.conf import settings
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.renderers import OpenApiJsonRenderer, OpenApiYamlRenderer
from drf_spectacular.utils import extend_schema
from rest_framework.permissions import SAFE_METHODS
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from admin_base.views import MiddlewareAuthentication, PagePermission
from studio.base import navigation
from studio.base.navigation import GROUPS, find_menu_item
from studio.configuration import file_schemas
from studio.configuration.entry_types import KINDS

HOME_TAG = "Home"
BROWSER_MEDIA_TYPES = (
    "text/html",
    "application/x-www-form-urlencoded",
    "multipart/form-data",
    "application/x-yaml",
)
ERROR_REF = {"$ref": "#/components/schemas/ErrorResponse"}
COMMON_SCHEMAS = {
    "ErrorResponse": {
        "type": "object",
        "description": "An error.",
        "required": ["error"],
        "properties": {
            "error": {
                "type": "object",
                "required": ["message", "type"],
                "properties": {
                    "message": {"type": "string"},
                    "type": {"type": "string"},
                    "code": {"type": ["string", "null"]},
                    "param": {"type": ["string", "null"]},
                    "problems": {
                        "type": "array",
                        "items": {"$ref": "#/components/schemas/ConfigProblemDetail"},
                    },
                },
            }
        },
    },
}
CONFIGURATION_PATHS = {*(kind.path for kind in KINDS), "mcp", "providers"}
"""Paths under which created objects become part of the configuration."""
CONFLICTING_OPERATIONS = {
    ("post", "/admin/sidecars/{name}/restart"),
    ("post", "/admin/users/{user}/facts/{id}/accept"),
    ("post", "/admin/users/{user}/facts/{id}/reject"),
    ("post", "/admin/tasks/{id}/retry"),
    ("post", "/admin/trigger-runs/{id}/retry"),
    ("post", "/admin/triggers/{name}/run"),
}
"""Operations, besides configuration changes, that may return 409."""
ERROR_DESCRIPTIONS = {
    400: "The body or a parameter is invalid.",
    401: "The request has no valid login.",
    403: "The user's role, or the file, does not allow the operation.",
    404: "The object does not exist.",
    406: "The response is not available in a format that `Accept` names.",
    409: "The object has changed, exists already, or does not allow this in its state.",
    415: "The media type of the body is not supported.",
    422: "The configuration would be invalid; `problems` has the reasons.",
    503: "The database or another service is unavailable.",
}
SECURITY_SCHEMES = ["password", "session"]
"""Without `auth.admin`, requests from this machine need neither."""


class StudioSecurityScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """Describes how `AccessMiddleware` authenticates users."""

    target_class = MiddlewareAuthentication
    name = SECURITY_SCHEMES

    def get_security_definition(self, auto_schema: AutoSchema) -> Any:
        """Return both security schemes."""
        basic = "The login of `auth.admin.basic`."
        session = "The session after a login with `auth.admin.oidc`."
        return [
            {"type": "http", "scheme": "basic", "description": basic},
            {
                "type": "apiKey",
                "in": "cookie",
                "name": settings.SESSION_COOKIE_NAME,
                "description": session,
            },
        ]


class PlainJsonRenderer(OpenApiJsonRenderer):
    """JSON for clients that accept only `application/json`."""

    media_type = "application/json"


class PlainYamlRenderer(OpenApiYamlRenderer):
    """YAML under the media type of the studio's other responses."""

    media_type = "application/yaml"


class OpenApiView(APIView):
    """`/admin/openapi.json`: the OpenAPI 3.1 document of all addresses."""

    authentication_classes = [MiddlewareAuthentication]
    permission_classes = [PagePermission]
    renderer_classes = [
        OpenApiJsonRenderer,
        PlainJsonRenderer,
        OpenApiYamlRenderer,
        PlainYamlRenderer,
    ]

    def required_permission(self, method: str | None) -> str | None:
        """Return None for reading: the document has no data."""
        return None if method in SAFE_METHODS else navigation.CHANGE_CONFIGURATION

    @extend_schema(exclude=True)
    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        return Response(build_document())


@cache
def build_document() -> dict[str, Any]:
    """Return the document, which is built once: it takes a second."""
    # The library has no types.
    generator: Any = cast(Any, SchemaGenerator)(
        urlconf=settings.COULISSE_STUDIO_URLCONF
    )
    document: dict[str, Any] = generator.get_schema(request=None, public=True)
    return document


def postprocess_document(
    result: dict[str, Any], generator: Any, request: Any, public: bool
) -> dict[str, Any]:
    """Return the document with the parts that all views share.

    `SPECTACULAR_SETTINGS` names this as a hook.
    """
    schemas = result["components"]["schemas"]
    schemas.update(COMMON_SCHEMAS | file_schemas.build_schemas())
    result["tags"] = [{"name": name or HOME_TAG} for name in GROUPS]
    for path, method, operation in iterate_operations(result):
        operation["tags"] = [_group_of(path)]
        operation["security"] = [*({name: []} for name in SECURITY_SCHEMES), {}]
        _remove_browser_types(operation)
        _add_errors(path, method, operation)
    return result


def iterate_operations(document: Any) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield every operation with its path and method."""
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield path, method, operation


def _group_of(path: str) -> str:
    """Return the menu group of an address."""
    item = find_menu_item(path)
    return "Configure" if item is None else item[0] or HOME_TAG


def _remove_browser_types(operation: dict[str, Any]) -> None:
    bodies = [operation.get("requestBody", {}), *operation["responses"].values()]
    for body in bodies:
        for kind in BROWSER_MEDIA_TYPES:
            body.get("content", {}).pop(kind, None)


def _add_errors(path: str, method: str, operation: dict[str, Any]) -> None:
    for status in _error_statuses(path, method, operation):
        content = {
            kind: {"schema": ERROR_REF} for kind in file_schemas.DATA_MEDIA_TYPES
        }
        response = {"description": ERROR_DESCRIPTIONS[status], "content": content}
        operation["responses"].setdefault(str(status), response)


def _error_statuses(path: str, method: str, operation: dict[str, Any]) -> Iterator[int]:
    is_config_change = method != "get" and _changes_configuration(path, operation)
    has_body = "requestBody" in operation
    if has_body or operation.get("parameters"):
        yield 400
    yield from (401, 403)
    if re.search(r"\{\w+\}", path):
        yield 404
    yield 406
    if is_config_change or (method, path) in CONFLICTING_OPERATIONS:
        yield 409
    if has_body:
        yield 415
    if is_config_change:
        yield 422
    yield 503


def _changes_configuration(path: str, operation: dict[str, Any]) -> bool:
    parameters = operation.get("parameters", ())
    has_version = any(each["name"] == "version" for each in parameters)
    is_new = (
        "201" in operation["responses"] and path.split("/")[2] in CONFIGURATION_PATHS
    )
    return has_version or is_new or path == "/admin/tokens/enable"
