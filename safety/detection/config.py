"""The YAML of what finds something: the `by:` of a safety check."""

from collections.abc import Iterable
from functools import cached_property
from typing import Annotated, Any, Literal

import jsonschema_rs
import re2
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    model_validator,
)

from core.text.sanitization import escape_and_truncate
from safety.detection.personal_data import DataKind

MAX_PATTERN_BYTES = 4 * 1024 * 1024
"""Maximum memory of one compiled pattern."""

Name = Annotated[str, StringConstraints(pattern=r"^[^\W\d][\w-]*$", max_length=64)]
Text = Annotated[
    str, StringConstraints(strip_whitespace=True, min_length=1, max_length=4_000)
]


def compile_pattern(pattern: str) -> re2._Regexp:
    """Return a pattern, case-insensitive, in RE2: linear time on any text."""
    options = re2.Options()
    options.log_errors, options.case_sensitive = False, False
    options.max_mem = MAX_PATTERN_BYTES
    return re2.compile(pattern, options)


def _check_pattern(pattern: str) -> str:
    try:
        compiled = compile_pattern(pattern)
    except re2.error as exc:
        reason = exc.args[0].decode() if exc.args else "invalid"
        raise ValueError(
            f"is not a pattern of RE2: {escape_and_truncate(reason)}{_hint(reason)}"
        ) from exc
    if compiled.search(""):
        raise ValueError("matches the empty text, so it would match every text")
    return pattern


NOT_IN_RE2 = (
    "invalid perl operator",
    *(f"invalid escape sequence: \\{name}" for name in "123456789k"),
)


def _hint(reason: str) -> str:
    """Return what to do about a refused pattern, if its reason does not say it."""
    if reason.startswith(NOT_IN_RE2):
        return "; RE2 has no look-around and no back-references"
    if reason.startswith("pattern too large"):
        return "; shorten its repetitions, or write it as several patterns"
    return ""


Pattern = Annotated[
    str, Field(min_length=1, max_length=1_000), AfterValidator(_check_pattern)
]
Patterns = Annotated[tuple[Pattern, ...], Field(min_length=1, max_length=200)]


def _check_schema(schema: dict[str, Any]) -> dict[str, Any]:
    try:
        compile_schema(schema)
    except (jsonschema_rs.ValidationError, ValueError) as exc:
        reason = escape_and_truncate(str(getattr(exc, "message", exc)))
        raise ValueError(f"is not a JSON Schema: {reason}") from exc
    return schema


def compile_schema(schema: dict[str, Any]) -> Any:
    """Return a validator without network access, with patterns in linear time."""
    return jsonschema_rs.validator_for(
        schema, offline=True, pattern_options=jsonschema_rs.RegexOptions()
    )


class SafetyModel(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ModerationConfig(SafetyModel):
    """OpenAI's moderation endpoint."""

    provider: str | None = Field(
        None,
        description="A name under `providers:`. Default: the first of kind openai with "
        "an api_key.",
    )
    model: str | None = Field(
        None, min_length=1, description="Default: `omni-moderation-latest`."
    )
    categories: tuple[str, ...] = Field(
        (),
        description="The categories that count, such as `self-harm`. Default: all.",
    )
    scores: dict[Name, Annotated[float, Field(gt=0, le=1)]] = Field(
        default_factory=dict,
        description="The score from which a text has a level. Default: what the "
        "endpoint flags has the highest level.",
    )


class ControlModelConfig(SafetyModel):
    """A control model, which reads the conversation and answers with a level."""

    provider: str = Field(description="A name under `providers:`.")
    model: str = Field(min_length=1, description="The provider's name of the model.")
    instructions: Text = Field(description="What to look for.")
    max_tokens: int | None = Field(
        None,
        ge=1,
        description="Maximum tokens of its answer, reasoning included. Default: the "
        "model's own limit.",
    )


class Detector(SafetyModel):
    """What finds something: exactly one of these."""

    regex: dict[Name, Patterns] | None = Field(
        None,
        min_length=1,
        description="Patterns of RE2 for each level, case-insensitive.",
    )
    pii: Annotated[tuple[DataKind, ...], Field(min_length=1)] | None = Field(
        None, description="Kinds of personal data."
    )
    injection: Literal[True] | None = Field(
        None, description="Attempts to override the instructions of the agent."
    )
    json_schema: Annotated[dict[str, Any], AfterValidator(_check_schema)] | None = (
        Field(
            None,
            description="The schema of a reply, which must be JSON; `{}` is any JSON.",
        )
    )
    moderation: ModerationConfig | None = Field(
        None, description="A provider's moderation endpoint; `{}` uses the defaults."
    )
    model: ControlModelConfig | None = Field(None, description="A control model.")

    @model_validator(mode="after")
    def _check_one(self) -> "Detector":
        given = [getattr(self, name) for name in self.model_fields_set]
        if len(given) != 1 or given[0] is None:
            names = ", ".join(type(self).model_fields)
            raise ValueError(f"must have exactly one of {names}")
        return self

    @property
    def kind(self) -> str:
        (kind,) = self.model_fields_set
        return kind

    @property
    def is_remote(self) -> bool:
        """Whether it calls a provider."""
        return self.moderation is not None or self.model is not None

    @property
    def is_windowed(self) -> bool:
        """Whether it checks a stream window by window, not the whole text."""
        return self.regex is not None or self.pii is not None

    @property
    def levels(self) -> Iterable[str]:
        """The levels that it names itself."""
        if self.regex is not None:
            return self.regex
        return () if self.moderation is None else self.moderation.scores

    @cached_property
    def patterns(self) -> list[tuple[str, re2._Regexp]]:
        """The compiled patterns with their levels."""
        return [
            (level, compile_pattern(pattern))
            for level, patterns in (self.regex or {}).items()
            for pattern in patterns
        ]

    @cached_property
    def validator(self) -> Any:
        return compile_schema(self.json_schema or {})
