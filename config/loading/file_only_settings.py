"""Settings that only the file may set: commands and paths on this machine."""

from collections.abc import Iterator
from typing import Any

from django.conf import settings
from django.utils.module_loading import import_string

from config import sections
from config.sections import Config, Section


def find_changes(before: Config, after: Config) -> Iterator[tuple[Section[Any], str]]:
    """Yield the file-only settings that differ, by section and name.

    Yields none if the first configuration allows the studio to change them.
    """
    path = settings.COULISSE_MAY_CHANGE_COMMANDS
    if path and import_string(path)(before):
        return
    for section in sections.registered_sections().values():
        if section.file_only is None:
            continue
        old = section.file_only(before.get(section))
        new = section.file_only(after.get(section))
        for name in {**old, **new}:
            if old.get(name) != new.get(name):
                yield section, name


def denial_message(section: Section[Any], name: str) -> str:
    noun = section.noun
    subject = f"{noun} '{name}'" if noun else f"'{section.key}.{name}'"
    return (
        f"{subject}: commands and paths on this machine can be changed only in the "
        "file; "
        "edit the file, or set studio: {allow_commands: true} in it"
    )
