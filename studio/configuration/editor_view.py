"""The base of the views that show and change a part of the configuration.

A refused form keeps the submitted text. If the part has changed since the form was
loaded, it shows the difference and takes the current version, which saving replaces.
"""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from pydantic import BaseModel, Field
from rest_framework.request import Request
from rest_framework.response import Response

from admin_base.formats import data_formats
from config.errors import ConfigInvalid
from config.overrides import overridable_entries
from config.sections import Problem
from studio.base.error_responses import invalid_config_body
from studio.base.views import StudioView


class EditConflict(NamedTuple):
    """The current state of a part that changed while a form edited it."""

    url: str
    """The page that shows its current state."""
    diff: str | None
    """The changes that saving would make, as a unified diff; None if it is not YAML."""


class EditorView(StudioView):
    """A part of the configuration: as a page, as YAML text and as data."""

    def respond_with_part(
        self,
        *,
        etag: str,
        text: Callable[[], Any],
        data: Callable[[], Any],
        page: Callable[[], Any],
        status: int = 200,
    ) -> Response:
        """Return the part in the requested format, with its version."""
        loaders = {"html": page, "yaml": text}
        load = loaders.get(self.request.accepted_renderer.format, data)
        response = self.respond(load(), status=status)
        response["ETag"] = etag
        return response

    def submitted_form(
        self, *, version: str, current: str | None, url: str
    ) -> dict[str, Any]:
        """Return a form's text, and the conflict if the part has changed since.

        `current` is the current text, None if it is unreadable.
        """
        text, loaded = self.yaml_text(), self._form_fields().get("version", "")
        if loaded in ("", version):
            return {"yaml": text, "version": loaded}
        diff = None
        if current is not None:
            diff = overridable_entries.diff_texts(
                current, text, "current version", "your edit"
            )
        conflict = EditConflict(url, diff)
        return {"yaml": text, "version": version, "edit_conflict": conflict}


class ConfigDraft(BaseModel):
    """The unsaved text of the file, or of a part of it."""

    yaml: str = Field(max_length=2 * 1024 * 1024)
    at: str = Field(
        "",
        description="The path of the text in the file, such as `telemetry` or "
        "`providers/openai`; `~1` stands for a slash in a name. Empty for the file.",
    )


class CheckView(StudioView):
    """The problems of an unsaved text."""

    renderer_classes = [data_formats.JsonRenderer, data_formats.YamlRenderer]

    def post(self, request: Request, **kwargs: str) -> Response:
        problems = self.find_problems(self.parse_body(ConfigDraft))
        body = invalid_config_body(ConfigInvalid(problems))
        return self.respond({"problems": body["error"]["problems"]})

    def find_problems(self, draft: ConfigDraft) -> Iterable[Problem]:
        """Return the problems of a text, with positions in that text."""
        raise NotImplementedError
