"""Validate one section of the YAML and describe its problems in plain words."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from config import errors
from config.sections import Location, Problem, Section, entries_of
from config.validation import error_messages, pydantic_errors, schema_paths
from config.validation.pydantic_errors import LocatedError
from config.validation.suggestions import did_you_mean

SECRET_WORDS = {"authorization", "credential", "credentials", "headers", "key"}
SECRET_WORDS |= {"password", "secret", "token"}
TEXT_ERRORS = {"path_type", "string_type"}
"""Pydantic's errors of values that are not text."""
NO_TEXTS: Mapping[Location, str] = MappingProxyType({})
SENTENCE_VERBS = {"are", "cannot", "does", "has", "is", "must", "needs"}


class ShapeError(Exception):
    """The data does not have its section's shape."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__(self.problems)


def validate_section(
    section: Section[Any],
    data: Any,
    placeholder_texts: Mapping[Location, str],
    scalar_texts: Mapping[Location, str] = NO_TEXTS,
) -> Any:
    """Return the section's value; raises `ShapeError` with every problem found.

    `placeholder_texts` has the file's text for expanded placeholders; messages show
    that text and never the value, which may be a secret. `scalar_texts` has that of
    numbers and booleans: where the section expects text, it is the value.
    """
    try:
        value = section.adapter.validate_python(data)
    except ValidationError as exc:
        found = exc.errors(include_url=False)
        as_text = _with_expected_texts(section, data, found, scalar_texts)
        if as_text is not None:
            return validate_section(section, as_text, placeholder_texts, scalar_texts)
        groups = pydantic_errors.group_errors(found, data)
        slice_ = _Slice(section, data, placeholder_texts)
        raise ShapeError(map(slice_.build_problem, groups)) from None
    slice_ = _Slice(section, data, placeholder_texts)
    if problems := list(slice_.boolean_problems()):
        raise ShapeError(problems)
    return value


def _with_expected_texts(
    section: Section[Any],
    data: Any,
    found: Iterable[ErrorDetails],
    scalar_texts: Mapping[Location, str],
) -> Any:
    """Return the data with the file's text in place of numbers and booleans where only
    text is valid; None if there are none."""
    root = {section.key: data}
    is_changed = False
    for details in found:
        if details["type"] not in TEXT_ERRORS or isinstance(details["input"], str):
            continue
        location = (section.key, *pydantic_errors.steps_of(details, data))
        if (text := scalar_texts.get(location)) is not None:
            parent: Any = root
            for step in location[:-1]:
                parent = parent[step]
            if not isinstance(parent[location[-1]], str):
                parent[location[-1]] = text
                is_changed = True
    return root[section.key] if is_changed else None


@dataclass(frozen=True)
class _Slice:
    section: Section[Any]
    data: Any
    placeholder_texts: Mapping[Location, str]

    def build_problem(self, group: list[LocatedError]) -> Problem:
        error = group[0]
        match error.details["type"]:
            case "missing":
                code, predicate = errors.MISSING, "is missing"
            case "extra_forbidden" | "unexpected_keyword_argument":
                code = errors.UNKNOWN_FIELD
                predicate = self._unknown_message(error.steps)
            case _:
                code, predicate = errors.WRONG_VALUE, self._wrong_message(group)
        message = _join_sentence(self._subject(error.steps), predicate)
        return Problem((self.section.key, *error.steps), message, code)

    def boolean_problems(self) -> Iterator[Problem]:
        """Find booleans that would be converted to the numbers 1 or 0."""
        for steps, value in _find_booleans(self.data, ()):
            kind = schema_paths.number_type(self.section.schema, steps)
            if kind is not None:
                predicate = f"must be {kind}{self._found_phrase(steps, value)}"
                message = _join_sentence(self._subject(steps), predicate)
                location = (self.section.key, *steps)
                yield Problem(location, message, errors.WRONG_VALUE)

    def _unknown_message(self, steps: Location) -> str:
        known = schema_paths.fields_at(self.section.schema, steps[:-1])
        hint = did_you_mean(str(steps[-1]), known)
        if not hint and known:
            hint = f"; known fields: {', '.join(known)}"
        return f"is not a known field{hint}"

    def _wrong_message(self, group: list[LocatedError]) -> str:
        steps = group[0].steps
        expected = [error_messages.describe_expectation(e.details) for e in group]
        if None in expected:
            return error_messages.error_message(group[0].details)
        phrases = list(dict.fromkeys(filter(None, expected)))
        if phrases == [error_messages.NOT_EMPTY]:
            return "must not be empty"
        value = group[0].details["input"]
        hint = ""
        if isinstance(value, str) and not self._is_hidden(steps):
            hint = did_you_mean(value, re.findall("'([^']*)'", " ".join(phrases)))
        found = self._found_phrase(steps, value)
        if any(phrase.endswith("entries") for phrase in phrases):
            found = ""
        return f"must be {' or '.join(phrases)}{found}{hint}"

    def _found_phrase(self, steps: Location, value: Any) -> str:
        if isinstance(value, str | int | float) and self._is_secret(steps):
            return ""
        file_text = self.placeholder_texts.get((self.section.key, *steps))
        if file_text is not None:
            written = error_messages.describe_value(file_text)
            return f", but the value of {written} is not"
        return f", not {error_messages.describe_value(value)}"

    def _is_hidden(self, steps: Location) -> bool:
        is_expanded = (self.section.key, *steps) in self.placeholder_texts
        return is_expanded or self._is_secret(steps)

    def _is_secret(self, steps: Location) -> bool:
        words = {word for s in steps for word in re.split(r"[_-]", str(s).lower())}
        is_marked = schema_paths.is_secret(self.section.schema, steps)
        return is_marked or bool(words & SECRET_WORDS)

    def _subject(self, steps: Location) -> str:
        """Return the subject of a sentence: `agent 'pm': 'max_turns'`."""
        if not steps or not self.section.noun:
            label, rest = self.section.key, steps
        else:
            label, rest = self._entry(steps[0]), steps[1:]
        return f"{label}: '{_dotted(rest)}'" if rest else f"{label}:"

    def _entry(self, step: str | int) -> str:
        noun = self.section.noun
        if not isinstance(step, int):
            return f"{noun} '{step}'"
        entry = self.data[step]
        name = entry.get("name") if isinstance(entry, dict) else None
        is_named = name and isinstance(name, str)
        return f"{noun} '{name}'" if is_named else f"{noun} {step + 1}"


def _find_booleans(data: Any, steps: Location) -> Iterator[tuple[Location, bool]]:
    if isinstance(data, bool):
        yield steps, data
    for step, value in entries_of(data):
        yield from _find_booleans(value, (*steps, step))


def _join_sentence(subject: str, predicate: str) -> str:
    """Join both parts; a message that does not start with a verb stays separate."""
    is_sentence = predicate.split(" ")[0] in SENTENCE_VERBS
    return f"{subject}{' ' if subject[-1] == ':' or is_sentence else ': '}{predicate}"


def _dotted(steps: Location) -> str:
    text = "".join(f"[{s}]" if isinstance(s, int) else f".{s}" for s in steps)
    return text.removeprefix(".")
