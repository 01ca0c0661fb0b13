"""Agents, judges, experiments and smoke tests of the studio, as overrides of ours."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import orjson

from access.audit import audit_events
from config import live
from config.editing import round_trip
from config.errors import ConfigInvalid
from config.models import Override
from config.overrides import entry_texts, overridable_entries, override_editor
from config.sections import Section
from core.errors import CoulisseError
from imports.coulisse.source_database import (
    Row,
    RowDamaged,
    SourceDatabase,
    Table,
    read_text,
)
from imports.report import Report

SECTIONS = {
    "dynamic_judges": "judges",
    "dynamic_agents": "agents",
    "dynamic_experiments": "experiments",
    "dynamic_smoke_tests": "smoke_tests",
}
"""The tables, each after those that its entries may refer to."""
KIND = "overrides"
COLUMNS = ("name", "config_json", "disabled")


@dataclass(frozen=True, eq=False)
class ImportedOverride:
    """An entry, or the name of an entry of the file that is disabled."""

    section: Section[Any]
    name: str
    data: dict[str, Any] | None

    def save(self, by: str) -> None:
        """Store it as the studio does; raises `CoulisseError` if it is not valid."""
        if self.data is None:
            override_editor.disable_entry(self.section, self.name, by=by)
            return
        text = round_trip.dump_block(self.data)
        config = live.current()
        if self.name in entry_texts.read_texts(config.content, self.section.key):
            override_editor.save_entry(self.section, self.name, text, by=by)
        else:
            override_editor.create_entry(self.section, text, by=by)


def import_overrides(source: SourceDatabase) -> None:
    """Import the entries that are valid together with the YAML; report the others."""
    for table, key in SECTIONS.items():
        section = overridable_entries.get_section(key)
        source.import_rows(
            Table(table, KIND, COLUMNS),
            partial(_read, section),
            partial(_save, section, source.report),
        )


def _read(section: Section[Any], row: Row) -> ImportedOverride:
    name = read_text(row, "name")
    data = None if row["disabled"] else _read_data(row, name)
    return ImportedOverride(section, name, data)


def _read_data(row: Row, name: str) -> dict[str, Any]:
    try:
        data = orjson.loads(read_text(row, "config_json"))
    except orjson.JSONDecodeError:
        raise RowDamaged("'config_json' is not JSON") from None
    if not isinstance(data, dict):
        raise RowDamaged("'config_json' is not an object")
    return {"name": name, **data}


def _save(section: Section[Any], report: Report, found: list[ImportedOverride]) -> None:
    """Save the entries that have no override yet, until none of the rest is valid.

    An entry may refer to a later one: an agent to its subagents.
    """
    names = Override.objects.filter(section=section.key).values_list("name", flat=True)
    pending = [each for each in found if each.name not in set(names)]
    report.count(KIND, existing=len(found) - len(pending))
    by = audit_events.terminal_actor().name
    while pending:
        problems = {each: problem for each in pending if (problem := _try(each, by))}
        report.count(KIND, written=len(pending) - len(problems))
        if len(problems) == len(pending):
            for each, problem in problems.items():
                report.skip(KIND, f"{section.noun} '{each.name}'", problem)
            return
        pending = list(problems)


def _try(override: ImportedOverride, by: str) -> str:
    """Save an entry; return why it cannot be saved, or ""."""
    try:
        override.save(by)
    except ConfigInvalid as exc:
        return "; ".join(problem.message for problem in exc.problems)
    except CoulisseError as exc:
        return str(exc)
    return ""
