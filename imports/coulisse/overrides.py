"""Agents, judges, experiments and smoke tests of the studio, as overrides of ours."""

from dataclasses import dataclass
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
    read_text,
    row_name,
)
from imports.report import Report, batch

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
    row: str
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


def import_overrides(source: SourceDatabase, report: Report) -> None:
    """Import the entries that are valid together with the YAML; report the others."""
    for table, key in SECTIONS.items():
        if table not in source.tables:
            continue
        section = overridable_entries.get_section(key)
        for rows in source.batches(table, COLUMNS, kind=KIND, report=report):
            found = [each for row in rows if (each := _read(row, section, report))]
            with batch(report):
                _save(section, found, report)


def _read(row: Row, section: Section[Any], report: Report) -> ImportedOverride | None:
    try:
        name = read_text(row, "name")
        data = None if row["disabled"] else _read_data(row, name)
    except RowDamaged as exc:
        report.skip(KIND, row_name(row), str(exc))
        return None
    return ImportedOverride(section, name, f"{section.noun} '{name}'", data)


def _read_data(row: Row, name: str) -> dict[str, Any]:
    try:
        data = orjson.loads(read_text(row, "config_json"))
    except orjson.JSONDecodeError:
        raise RowDamaged("'config_json' is not JSON") from None
    if not isinstance(data, dict):
        raise RowDamaged("'config_json' is not an object")
    return {"name": name, **data}


def _save(section: Section[Any], found: list[ImportedOverride], report: Report) -> None:
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
                report.skip(KIND, each.row, problem)
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
