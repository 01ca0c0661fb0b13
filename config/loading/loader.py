"""Load the file into a valid `Config`, or report all its problems.

Steps: read, parse, take each section's data, expand its placeholders, validate its
shape, then run each section's reference checks. Only a parse error stops the process;
all other problems are collected.
"""

import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from ruamel.yaml.nodes import Node

from config import errors, sections
from config.config import VARS
from config.errors import ConfigInvalid
from config.loading import overlay_merge, reader, secret_values
from config.loading.constructor import ValueTree
from config.loading.overlays import Overlay
from config.loading.placeholders import Expander
from config.sections import Config, Problem, Section, SectionView
from config.validation import suggestions, validator
from config.validation.suggestions import did_you_mean
from core.text import redaction

T = TypeVar("T")


def load_file(path: Path) -> Config:
    """Return the valid configuration of a file; raises `ConfigInvalid`."""
    return parse_config(reader.read_file(path), path)


def parse_config(
    content: bytes, path: Path, overlays: Sequence[Overlay] = ()
) -> Config:
    """Return the valid configuration of a file's content; raises `ConfigInvalid`.

    Applies the overlays; `config.loading.resolution` handles those that conflict.
    """
    source = reader.parse_source(content, reader.display_path(path), is_cached=True)
    tree = ValueTree(source, Expander(os.environ))
    section_reader = _SectionReader(tree, sections.registered_sections(), overlays)
    with suggestions.limit_guesses():
        values = section_reader.values()
        section_reader.run_checks(values)
    redaction.register_secrets(secret_values.find_secrets(values))
    if section_reader.problems:
        found = section_reader.in_file_order()
        # Each overlay gets all of its problems reported.
        raise ConfigInvalid(found if overlays else errors.limit_problems(found))
    return Config(path, MappingProxyType(values), content_digest(content), content)


def parse_sections(content: bytes, selected: Sequence[Section[Any]]) -> Config:
    """Return some sections of a valid content, without reading the others.

    This saves memory in a process that needs no others. The secrets of the other
    sections are registered for redaction, too. Raises `ConfigInvalid` for invalid YAML.
    """
    tree = ValueTree(reader.parse_source(content, ""), Expander(os.environ))
    keys = tree.entries(tree.source.root, ())
    others: dict[str, Section[Any]] = {
        key: Section(key=key, shape=Any, default=dict) for key in keys
    }
    selected_by_key = {section.key: section for section in (VARS, *selected)}
    values = _SectionReader(tree, {**others, **selected_by_key}).values()
    redaction.register_secrets(secret_values.find_secrets(values))
    redaction.register_secrets(secret_values.find_named_secrets(values))
    chosen = {key: value for key, value in values.items() if key in selected_by_key}
    return Config(Path(), MappingProxyType(chosen), content_digest(content))


def content_digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


class _BrokenSectionError(Exception):
    """A check reads a section that is itself invalid."""


@dataclass(frozen=True)
class _PartialConfig(Config):
    """The configuration for checks: all sections, or only the valid ones."""

    invalid: frozenset[str] = frozenset()

    def get(self, section: Section[T] | SectionView[T]) -> T:
        if section.key in self.invalid:
            raise _BrokenSectionError(section.key)
        return super().get(section)


@dataclass
class _SectionReader:
    tree: ValueTree
    sections: dict[str, Section[Any]]
    overlays: Sequence[Overlay] = ()
    invalid: set[str] = field(default_factory=set)

    @property
    def problems(self) -> list[Problem]:
        return self.tree.problems

    def in_file_order(self) -> list[Problem]:
        """Return the problems in file order, without repeats through aliases."""
        placed = [
            replace(each, position=each.position or self.tree.position(each.location))
            for each in self.problems
        ]
        distinct = {(p.position, p.message): p for p in placed}
        return sorted(distinct.values(), key=_sort_key)

    def values(self) -> dict[str, Any]:
        """Return the value of each valid section."""
        nodes = self.tree.entries(self.tree.source.root, ())
        self._reject_unknown(nodes)
        data = self._data(nodes)
        values = {}
        for key, section in self.sections.items():
            try:
                values[key] = self._value(section, data.get(key))
            except validator.ShapeError as exc:
                self.invalid.add(key)
                self.problems.extend(exc.problems)
        return values

    def _reject_unknown(self, nodes: dict[str, Node]) -> None:
        unknown = (key for key in nodes if key not in self.sections)
        self.problems.extend(_unknown_problem(key, self.sections) for key in unknown)

    def _data(self, nodes: dict[str, Node]) -> dict[str, Any]:
        """Return each section's data, `vars:` first, because others may use it."""
        expander = self.tree.expander
        data: dict[str, Any] = {}
        for key in sorted(self.sections, key=lambda key: key != VARS.key):
            if key != VARS.key and expander.variables is None:
                found = data.get(VARS.key)
                # Other values than text are reported separately.
                entries = found.items() if isinstance(found, dict) else ()
                texts = self.tree.scalar_texts
                expander.variables = {
                    name: texts.get((VARS.key, name), str(text))
                    for name, text in entries
                }
            node = nodes.get(key)
            if own := [overlay for overlay in self.overlays if overlay.section == key]:
                section = self.sections[key]
                node = overlay_merge.merge_overlays(self.tree, section, node, own)
            if node is not None:
                data[key] = self.tree.value(node, (key,))
        return data

    def _value(self, section: Section[Any], data: Any) -> Any:
        failed = self.tree.failed
        if data is None and (section.key,) not in failed:
            if section.required:
                described = f"'{section.key}:' ({section.description})"
                message = f"{described} is missing; it is required"
                missing = Problem((section.key,), message, errors.MISSING)
                raise validator.ShapeError([missing])
            return section.default()
        try:
            return validator.validate_section(
                section, data, self.tree.placeholder_texts, self.tree.scalar_texts
            )
        except validator.ShapeError as exc:
            # A failed placeholder is the problem, not the value it leaves.
            problems = (p for p in exc.problems if p.location not in failed)
            raise validator.ShapeError(problems) from None

    def run_checks(self, values: dict[str, Any]) -> None:
        """Run the sections' checks for broken references."""
        config = _PartialConfig(Path(), values, invalid=frozenset(self.invalid))
        for key, value in values.items():
            own = self.sections[key].check
            if own is not None:
                self.problems.extend(_run_check(partial(own, value), config))
        for check in sections.registered_checks():
            self.problems.extend(_run_check(check, config))


def _run_check(check: sections.ConfigCheck, config: Config) -> Iterator[Problem]:
    try:
        yield from check(config)
    except _BrokenSectionError:
        # The referenced section is invalid, so its references cannot be checked.
        return


def _sort_key(problem: Problem) -> tuple[int, int]:
    position = problem.position
    return (position.line, position.column) if position else (0, 0)


def _unknown_problem(key: str, valid_keys: Iterable[str]) -> Problem:
    hint = did_you_mean(key, sorted(valid_keys))
    if key == "port":
        hint = "; move it under server:"
    message = f"'{key}' is not a known top-level key{hint}"
    return Problem((key,), message, errors.UNKNOWN_KEY)
