"""One address of the studio, three faces: a page, JSON, YAML.

A `StudioView` has the methods of HTTP; each calls one function of the app it is about and
returns `self.answer(…)` or `self.done(…)`. What `Accept` asks for decides how that is
told: to scripts as data, to browsers as the page `template`, rendered with the data's
keys. So nothing a page can do is out of a script's reach.

    class Greetings(Face):
        title = "Greetings"
        template = "studio/greetings.html"

        @extend_schema(responses=GreetingList)
        def get(self, request: Request) -> Response:
            return self.answer({"data": greetings.all()})

        @extend_schema(request=Greeting, responses={201: Greeting})
        def post(self, request: Request) -> HttpResponseBase:
            made = greetings.add(self.entry(Greeting), by=self.author())
            return self.done(made, said="Saved the greeting", to="/admin/greetings")

In a template the data's keys are at hand by name, and all of it as `answer`.
Browsers' forms are POSTs; a hidden `_choose_auth_method` field names the method that is meant.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, TypeVar, cast

from django.contrib import messages
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

from access.audit.audit_events import Actor
from core.errors import CoulisseError, Denied, Invalid
from core.text.sanitization import escape_and_truncate
from core.validation import storable_values
from studio.base import formats
from studio.base.html_renderer import HtmlRenderer
from studio.security import accounts, csrf, roles
from studio.security.roles import Role

Shape = TypeVar("Shape", bound=BaseModel)
PageContext = Callable[[], Mapping[str, Any]]

MULTIPART = "multipart/form-data"
FORM_TYPES = ("application/x-www-form-urlencoded", MULTIPART)
METHOD_FIELD = "_method"
MAX_DIGITS = 18
YAML_FIELD = "yaml"
"""The field of a form that holds an entry as YAML."""
VERSION_FIELD = "version"
"""The parameter, or the field of a form, that says which version was shown."""


class RoleRequired(Denied):
    """Your role does not allow this."""

    code = "role_needed"


class MiddlewareAuthentication(BaseAuthentication):
    """Whoever the door let in."""

    def authenticate(self, request: Request) -> tuple[Any, None]:
        """Return the person the door has found."""
        return request._request.user, None


class RolePermission(BasePermission):
    """Viewers look, operators also change."""

    def has_permission(self, request: Request, view: Any) -> bool:
        """Return True; raises `RoleRequired` otherwise, which says what is missing."""
        role = roles.role_of(request.user)
        if role is None:
            raise RoleRequired(
                "You have no role in the studio; ask an operator for one"
            )
        only_looks = request.method in ("GET", "HEAD", "OPTIONS")
        if role is not Role.OPERATOR and (view.operator_only or not only_looks):
            raise RoleRequired(
                "Viewers look; ask an operator to change this, or for it"
            )
        return True


class PageResponse(Response):
    """Data, and what a page of it needs besides."""

    def __init__(
        self, data: Any, *, status: int, template: str | None, page: PageContext | None
    ) -> None:
        super().__init__(data, status=status)
        self.template, self.page = template, page


class StudioView(APIView):
    """One address: see the module's own text."""

    authentication_classes = [MiddlewareAuthentication]
    permission_classes = [RolePermission]
    renderer_classes = [formats.JsonRenderer, formats.YamlRenderer, HtmlRenderer]
    parser_classes = [
        formats.StudioJsonParser,
        formats.YamlParser,
        formats.LegacyYamlParser,
        FormParser,
        MultiPartParser,
    ]

    template: ClassVar[str] = ""
    """The page; an address without one is for scripts alone."""
    title: str = ""
    """What the page is called; set it on `self` where it depends on the address."""
    breadcrumbs: Sequence[tuple[str, str]] = ()
    """The ways back, from the outermost: names and addresses."""
    operator_only: ClassVar[bool] = False
    """Whether viewers may not even look."""

    def dispatch(
        self, request: HttpRequest, *args: Any, **kwargs: Any
    ) -> HttpResponseBase:
        """Answer by the method that is meant."""
        # Read once, here: as it was typed, and again by who parses it.
        self._body = request.body
        self._refusal: CoulisseError | None = None
        try:
            _check_form(request)
            csrf.check_csrf(request)
        except (Denied, Invalid) as exc:
            self._refusal = exc
        is_sent = request.method == "POST" and request.content_type in FORM_TYPES
        if is_sent and not isinstance(self._refusal, Invalid):
            request.method = request.POST.get(METHOD_FIELD, "POST").upper()
        answer: HttpResponseBase = super().dispatch(request, *args, **kwargs)
        return answer

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Refuse who may not, in the face that was asked for."""
        super().initial(request, *args, **kwargs)
        if self._refusal is not None:
            raise self._refusal

    def options(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        """Answer 204; the framework adds `Allow`, which names the methods."""
        return HttpResponse(status=204)

    # What methods answer with.

    def respond(
        self,
        data: Any,
        *,
        status: int = 200,
        template: str | None = None,
        page: PageContext | None = None,
    ) -> Response:
        """Return data; `page()` is asked for what only the page shows besides."""
        return PageResponse(data, status=status, template=template, page=page)

    def confirm_change(
        self, data: Any, *, said: str, to: str, status: int = 200, is_bad: bool = False
    ) -> HttpResponseBase:
        """Return what a change made to a script; lead a browser on, and tell it so."""
        if self.wants_html:
            tell = messages.error if is_bad else messages.success
            tell(self.request._request, said)
            return HttpResponseRedirect(to, status=303)
        return Response(data, status=status)

    def refused_form_context(self) -> Mapping[str, Any] | None:
        """Return the context of `template` when a form of it was refused.

        It holds what was typed; `error` is added to it. None shows a page of its own.
        """
        return None

    # What they ask with.

    @property
    def wants_html(self) -> bool:
        """Whether a browser asks."""
        return bool(self.request.accepted_renderer.format == "html")

    @property
    def is_form(self) -> bool:
        """Whether the body is that of a form."""
        return self.request._request.content_type in FORM_TYPES

    def actor(self) -> Actor:
        """Return who acts, for the audit."""
        return accounts.request_actor(self.request._request)

    def expected_version(self) -> str:
        """Return the version that whoever asks was shown; "" where none is said."""
        said = self.request.headers.get("If-Match", "").strip('W/" ')
        said = said or self.request.query_params.get(VERSION_FIELD, "")
        if not said and self.is_form:
            said = str(self._form_fields().get(VERSION_FIELD, ""))
        return "" if said == "*" else said

    def is_yaml_text(self) -> bool:
        """Tell whether the body is YAML as somebody wrote it, not data."""
        if self.is_form:
            return YAML_FIELD in self._form_fields()
        return "yaml" in (self.request._request.content_type or "")

    def yaml_text(self) -> str:
        """Return the body as YAML: as it was written, or what says the same.

        Raises `Invalid` for what is no text.
        """
        if not self.is_yaml_text():
            data = formats.to_plain_data(
                self.submitted_fields() if self.is_form else self.body_data()
            )
            return "" if self.is_form and not data else formats.dump_yaml(data)
        if self.is_form:
            return str(self._form_fields()[YAML_FIELD]).replace("\r\n", "\n")
        try:
            return self._body.decode()
        except UnicodeDecodeError:
            raise Invalid("The body is not UTF-8 text") from None

    def submitted_fields(self) -> dict[str, Any]:
        """Return data of a body's fields, without those that are about the request."""
        data = self.body_data()
        if not isinstance(data, dict):
            return {}
        return {name: it for name, it in data.items() if name != VERSION_FIELD}

    def body_data(self) -> Any:
        """Return the body's data; of a form its fields, or those of its YAML field."""
        if not self.is_form:
            return self.request.data
        fields = self._form_fields()
        if YAML_FIELD in fields:
            return formats.load_yaml(self.yaml_text().encode())
        return {
            name: value
            for name, value in fields.items()
            if value != "" and not name.startswith(("_", "csrf"))
        }

    def _form_fields(self) -> Mapping[str, Any]:
        """Return a form's fields without its files, the last value of each."""
        fields = cast(QueryDict, self.request.data).dict()
        return {name: text for name, text in fields.items() if isinstance(text, str)}

    def parse_body(self, shape: type[Shape]) -> Shape:
        """Return the body in a shape; raises `Invalid`, naming the first place."""
        return _validate(shape, self.body_data())

    def parse_query(self, shape: type[Shape]) -> Shape:
        """Return the query in a shape, without what is empty; raises as `entry`."""
        query = self.request.query_params
        return _validate(
            shape, {n: query[n] for n in query if query[n] and n != "format"}
        )

    def query_int(
        self, name: str, *, default: int, least: int = 1, most: int = 1000
    ) -> int:
        """Return a whole number from the query; raises `Invalid`."""
        text = self.request.query_params.get(name, "")
        if text == "":
            return default
        # Python refuses to read thousands of digits.
        is_number = text.isdecimal() and len(text) <= MAX_DIGITS
        if not is_number or not least <= int(text) <= most:
            raise Invalid(
                f"'{name}' must be a whole number from {least} to {most}", param=name
            )
        return int(text)


def _check_form(request: HttpRequest) -> None:
    """Raise `Invalid` for a form that cannot be read, or its text not stored."""
    try:
        fields, files = _read_form(request)
    except (MultiPartParserError, SuspiciousOperation) as exc:
        raise Invalid(f"The form cannot be read: {exc}") from exc
    for name in files:
        raise Invalid(
            "The form has a file, and none is accepted: send its text as a field",
            param=escape_and_truncate(name),
        )
    for name, values in fields.lists():
        for text in (name, *values):
            problem = storable_values.describe_problem(text)
            if problem is not None:
                raise Invalid(f"The form {problem}", param=escape_and_truncate(name))


def _read_form(request: HttpRequest) -> tuple[QueryDict, Mapping[str, Any]]:
    """Return a form's fields and files; Django itself reads those of POST only."""
    if request.method == "POST" or request.content_type not in FORM_TYPES:
        return request.POST, request.FILES
    if request.content_type == MULTIPART and request.body:
        raise Invalid(
            "A form of several parts is sent with POST; name another method in its "
            f"field {METHOD_FIELD}, or send the fields as JSON or YAML"
        )
    return QueryDict(request.body), {}


def _validate(shape: type[Shape], data: Any) -> Shape:
    """Return data in a shape; raises `Invalid`, naming the first place."""
    try:
        return shape.model_validate(data)
    except ValidationError as exc:
        first = exc.errors(include_url=False, include_context=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise Invalid(
            f"{place}: {first['msg']}" if place else first["msg"],
            param=place or None,
        ) from exc
