"""`coulisse overrides`: list, show and reset the studio's overrides."""

import logging
from argparse import ArgumentParser
from collections.abc import Iterator
from typing import Any

from django.conf import settings
from django.core.management.base import CommandParser
from django.utils.module_loading import import_string

from config import live
from config.loading import resolution
from config.management import config_option
from config.management.database_command import DatabaseCommand
from config.overrides import overridable_entries, override_editor
from config.overrides.overridable_entries import OverridableEntry


class Command(DatabaseCommand):
    help = "Lists, shows and resets the studio's overrides of the YAML file."

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        add = config_option.add_subcommands(parser, is_required=False)
        listing = add("list", "List all overrides (the default).")
        listing.add_argument("--json", action="store_true", help="Print JSON.")
        _add_entry_arguments(
            add("show", "Show an entry, its difference from the file and its history.")
        )
        _add_entry_arguments(
            add("reset", "Remove an override; delete an entry that the file lacks.")
        )

    def handle(self, **options: Any) -> None:
        # The command prints its own result; the log lines of the server are hidden.
        log = logging.getLogger("config.live")
        level = log.level
        log.setLevel(logging.WARNING)
        try:
            self._run_action(options)
        finally:
            log.setLevel(level)

    def _run_action(self, options: dict[str, Any]) -> None:
        # Conflicting overrides must be removable although the file is refused for them.
        live.set_current(
            live.read_effective(self.config_path(options), is_strict=False)
        )
        match options["what"]:
            case "show":
                self._show(options["section"], options["name"] or options["section"])
            case "reset":
                self._reset(options["section"], options["name"] or options["section"])
            case _:
                self._list(is_json=options.get("json", False))

    def _list(self, *, is_json: bool) -> None:
        found = [
            entry
            for section in resolution.overridable_sections().values()
            for entry in overridable_entries.list_entries(section)
            if entry.label != "yaml"
        ]
        if is_json:
            self.write_json([_as_json(entry) for entry in found])
            return
        for entry in found:
            for line in _entry_lines(entry):
                self.stdout.write(line)
        if not found:
            self.write_note("there are no overrides; the YAML file applies unchanged")

    def _show(self, key: str, name: str) -> None:
        section = overridable_entries.get_section(key)
        entry = overridable_entries.get_entry(section, name)
        for line in _detail_lines(entry):
            self.stdout.write(line)

    def _reset(self, key: str, name: str) -> None:
        section = overridable_entries.get_section(key)
        entry = overridable_entries.get_entry(section, name)
        is_own = entry.label == "dynamic"
        change = (
            override_editor.disable_entry if is_own else override_editor.reset_entry
        )
        import_string(settings.COULISSE_COMMAND_AUDIT)(
            overridable_entries.audit_action(section, "delete" if is_own else "reset"),
            overridable_entries.audit_target(section, name),
            lambda actor: change(section, name, by=actor),
        )
        described = overridable_entries.describe(section, name)
        if entry.file_text is None:
            self.stdout.write(f"deleted {described}")
        else:
            self.stdout.write(f"reset {described} to the YAML file")


def _add_entry_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "section", metavar="SECTION", help="A key of the YAML, such as agents."
    )
    parser.add_argument(
        "name",
        metavar="NAME",
        nargs="?",
        help="The entry's name; not for sections without entries, such as auth.",
    )


def _entry_lines(entry: OverridableEntry) -> Iterator[str]:
    """Return an entry's line, and below it the reason if it is rejected."""
    yield "  ".join(
        filter(None, [entry.section.key, entry.name, _describe_label(entry)])
    )
    for line in entry.reason.splitlines():
        yield f"  {line}"


def _describe_label(entry: OverridableEntry) -> str:
    """Return the entry's label, the time of the override and its author."""
    suffix = ", rejected" if entry.is_rejected else ""
    if entry.changed_at is None:
        return f"{entry.label}{suffix}"
    changed_at = f"{entry.changed_at:%Y-%m-%d %H:%M:%S}"
    return f"{entry.label}{suffix}  since {changed_at}  by {entry.changed_by}"


def _detail_lines(entry: OverridableEntry) -> Iterator[str]:
    yield from _entry_lines(entry)
    yield ""
    yield from entry.text.splitlines()
    if entry.diff:
        yield ""
        yield from entry.diff.splitlines()
    versions = entry.versions()
    if versions:
        yield ""
    for row in versions:
        yield f"{row.at:%Y-%m-%d %H:%M:%S}  {row.action:<10}  by {row.by}"


def _as_json(entry: OverridableEntry) -> dict[str, Any]:
    return {
        "section": entry.section.key,
        "name": entry.name,
        "label": entry.label,
        "is_rejected": entry.is_rejected,
        "reason": entry.reason,
        "version": entry.version,
        "changed_at": entry.changed_at,
        "changed_by": entry.changed_by,
        "yaml": entry.text,
    }
