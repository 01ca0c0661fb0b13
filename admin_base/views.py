"""The base of pages without a table: one address as a page, as JSON and as YAML.

A `PageView` has the methods of HTTP; each calls one function of an app and returns
`self.respond(…)` or `self.confirm_change(…)`. The `Accept` header decides the format:
scripts receive data, browsers the page `template`, rendered with the data's keys. So
scripts can do everything that a page can.

    class GreetingListView(PageView):
        title = "Greetings"
        template = "studio/greetings.html"

        @extend_schema(responses=GreetingList)
        def get(self, request: Request) -> Response:
            return self.respond({"data": greetings.all()})

        @extend_schema(request=Greeting, responses={201: Greeting})
        def post(self, request: Request) -> HttpResponseBase:
            greeting = greetings.add(self.parse_body(Greeting), by=self.actor())
            return self.confirm_change(
                greeting,
                message="Greeting saved",
                redirect_to="/admin/greetings",
                status=201,
            )

Templates use the data's keys as variables, and all of the data as `response_data`.
Browsers send forms by POST; a hidden `_method` field names the intended method.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, TypeVar, cast

from django.contrib import admin, messages
from django.core.exceptions import SuspiciousOperation
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, QueryDict
from django.http.multipartparser import MultiPartParserError
from django.http.response import HttpResponseBase
from pydantic import BaseModel, ValidationError
from rest_framework.authentication import BaseAuthentication
from rest_framework.parsers import FormParser, MultiPartParser
from rest_framework.permissions import BasePermission
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from admin_base import csrf
from admin_base.formats import data_formats
from admin_base.formats.html_renderer import HtmlRenderer
from core.errors import CoulisseError, Denied, Invalid
from core.text.sanitization import escape_and_truncate
from core.validation import storable_values

Schema = TypeVar("Schema", bound=BaseModel)
PageContext = Callable[[], Mapping[str, Any]]

MULTIPART = "multipart/form-data"
FORM_TYPES = ("application/x-www-form-urlencoded", MULTIPART)
METHOD_FIELD = "_method"
YAML_FIELD = "yaml"
"""The form field that holds an entry as YAML."""
VERSION_FIELD = "version"
"""The query parameter or form field with the version that the client has seen."""


class PermissionRequired(Denied):
    """Your account does not allow this."""

    code = "role_needed"


class MiddlewareAuthentication(BaseAuthentication):
    """Takes the user that `AccessMiddleware` has authenticated."""

    def authenticate(self, request: Request) -> tuple[Any, None]:
        return request._request.user, None


class PagePermission(BasePermission):
    """Asks the view which of Django's permissions a request needs."""

    def has_permission(self, request: Request, view: Any) -> bool:
        """Return True; raises `PermissionRequired` with the missing one otherwise."""
        if not admin.site.has_permission(request._request):
            raise PermissionRequired(
                "Your account has no role in the studio; ask an operator for one"
            )
        permission = view.required_permission(request.method)
        if permission is not None and not request.user.has_perm(permission):
            raise PermissionRequired(
                f"Your account needs the permission '{permission}' for this; "
                "ask an operator"
            )
        return True


class PageView(APIView):
    """The base class of pages; the module describes its use."""

    authentication_classes = [MiddlewareAuthentication]
    permission_classes = [PagePermission]
    renderer_classes = [
        data_formats.JsonRenderer,
        data_formats.YamlRenderer,
        HtmlRenderer,
    ]
    parser_classes = [
        data_formats.StudioJsonParser,
        data_formats.YamlParser,
        data_formats.LegacyYamlParser,
        FormParser,
        MultiPartParser,
    ]

    template: ClassVar[str] = ""
    """The template of the page; a view without one serves scripts only."""
    title: str = ""
    """The page title; set it on `self` if it depends on the address."""
    breadcrumbs: Sequence[tuple[str, str]] = ()
    """The breadcrumbs, outermost first: names and addresses."""

    def required_permission(self, method: str | None) -> str | None:
        """Return the permission for a method; None admits every user of the studio."""
        return None

    def may_change(self) -> bool:
        permission = self.required_permission("POST")
        return permission is None or self.request.user.has_perm(permission)

    def dispatch(
        self, request: HttpRequest, *args: Any, **kwargs: Any
    ) -> HttpResponseBase:
        """Dispatch by the method, which a form may override."""
        # Read the body once, here: it is used as raw text and by the parsers.
        self._body = request.body
        self._refusal: CoulisseError | None = None
        try:
            _check_form(request)
            csrf.check_csrf(request)
        except (Denied, Invalid) as exc:
            self._refusal = exc
        is_form_post = request.method == "POST" and request.content_type in FORM_TYPES
        if is_form_post and not isinstance(self._refusal, Invalid):
            request.method = request.POST.get(METHOD_FIELD, "POST").upper()
        response: HttpResponseBase = super().dispatch(request, *args, **kwargs)
        return response

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Refuse forbidden requests, in the requested format."""
        super().initial(request, *args, **kwargs)
        if self._refusal is not None:
            raise self._refusal

    def options(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        """Answer 204; the framework adds `Allow`, which lists the methods."""
        return HttpResponse(status=204)

    # Responses.

    def respond(
        self, data: Any, *, status: int = 200, page: PageContext | None = None
    ) -> Response:
        """Return data; `page()` computes the context that only the page needs."""
        response: Any = Response(data, status=status)
        response.page = page
        return cast(Response, response)

    def confirm_change(
        self,
        data: Any,
        *,
        message: str,
        redirect_to: str,
        status: int = 200,
        is_bad: bool = False,
        is_new: bool = False,
    ) -> HttpResponseBase:
        """Return the changed data to a script; redirect a browser with a message.

        The `Location` of what is new is the address that browsers are sent to.
        """
        if self.wants_html:
            add_message = messages.error if is_bad else messages.success
            add_message(self.request._request, message)
            return HttpResponseRedirect(redirect_to, status=303)
        headers = {"Location": redirect_to} if is_new else None
        return Response(data, status=status, headers=headers)

    def refused_form_context(self) -> Mapping[str, Any] | None:
        """Return the context of `template` after the form was refused.

        It has the submitted values; the caller adds `error`. None shows an error page
        instead.
        """
        return None

    # Request data.

    @property
    def wants_html(self) -> bool:
        """Whether the client is a browser."""
        return bool(self.request.accepted_renderer.format == "html")

    @property
    def is_form(self) -> bool:
        return self.request._request.content_type in FORM_TYPES

    def expected_version(self) -> str:
        """Return the version that the client has seen; "" if it sends none."""
        version = self.request.headers.get("If-Match", "").strip('W/" ')
        version = version or self.request.query_params.get(VERSION_FIELD, "")
        version = version or self._form_fields().get(VERSION_FIELD, "")
        return "" if version == "*" else version

    def is_yaml_text(self) -> bool:
        """Return whether the body is YAML text, not data."""
        if self.is_form:
            return YAML_FIELD in self._form_fields()
        return "yaml" in (self.request._request.content_type or "")

    def yaml_text(self) -> str:
        """Return the body as YAML: the original text, or its data written as YAML.

        Raises `Invalid` for a body that is not text.
        """
        if not self.is_yaml_text():
            data = data_formats.to_plain_data(
                self.submitted_fields() if self.is_form else self.body_data()
            )
            return "" if self.is_form and not data else data_formats.dump_yaml(data)
        if self.is_form:
            return str(self._form_fields()[YAML_FIELD]).replace("\r\n", "\n")
        try:
            return self._body.decode()
        except UnicodeDecodeError:
            raise Invalid("The body is not UTF-8 text") from None

    def submitted_fields(self) -> dict[str, Any]:
        """Return the body's fields without those that control the request."""
        data = self.body_data()
        if not isinstance(data, dict):
            return {}
        return {name: value for name, value in data.items() if name != VERSION_FIELD}

    def body_data(self) -> Any:
        """Return the body's data; for a form its fields or its YAML field's data."""
        if not self.is_form:
            return self.request.data
        fields = self._form_fields()
        if YAML_FIELD in fields:
            return data_formats.load_yaml(self.yaml_text().encode())
        return {
            name: value
            for name, value in fields.items()
            if value != "" and not name.startswith(("_", "csrf"))
        }

    def _form_fields(self) -> Mapping[str, Any]:
        """Return the fields of a form, without files: the last value of each."""
        if not self.is_form:
            return {}
        fields = cast(QueryDict, self.request.data).dict()
        return {name: text for name, text in fields.items() if isinstance(text, str)}

    def parse_body(self, schema: type[Schema]) -> Schema:
        """Validate the body; raises `Invalid`, naming the first problem."""
        return _validate(schema, self.body_data())

    def parse_query(self, schema: type[Schema]) -> Schema:
        """Validate the query, without empty values; raises as `parse_body` does."""
        query = self.request.query_params
        return _validate(
            schema,
            {name: query[name] for name in query if query[name] and name != "format"},
        )


def _check_form(request: HttpRequest) -> None:
    """Raise `Invalid` for a form that cannot be read or stored."""
    try:
        fields, files = _read_form(request)
    except (MultiPartParserError, SuspiciousOperation) as exc:
        raise Invalid(f"Invalid form: {exc}") from exc
    for name in files:
        raise Invalid(
            "The form has a file, which is not accepted; send its text as a field",
            param=escape_and_truncate(name),
        )
    for name, values in fields.lists():
        for text in (name, *values):
            problem = storable_values.describe_problem(text)
            if problem is not None:
                raise Invalid(f"The form {problem}", param=escape_and_truncate(name))


def _read_form(request: HttpRequest) -> tuple[QueryDict, Mapping[str, Any]]:
    """Return the fields and files of a form; Django itself parses only POST."""
    if request.method == "POST" or request.content_type not in FORM_TYPES:
        return request.POST, request.FILES
    if request.content_type == MULTIPART and request.body:
        raise Invalid(
            "Send multipart forms with POST, with another method in the field "
            f"{METHOD_FIELD}, or send the fields as JSON or YAML"
        )
    return QueryDict(request.body), {}


def _validate(schema: type[Schema], data: Any) -> Schema:
    """Validate data; raises `Invalid`, naming the first problem."""
    try:
        return schema.model_validate(data)
    except ValidationError as exc:
        first = exc.errors(include_url=False, include_context=False)[0]
        location = ".".join(map(str, first["loc"]))
        raise Invalid(
            f"{location}: {first['msg']}" if location else first["msg"],
            param=location or None,
        ) from exc
