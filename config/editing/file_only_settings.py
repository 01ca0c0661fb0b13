"""Settings that only the file may set: commands, and whether the studio may edit them.

A section declares its file-only values (`Section.file_only`). The studio refuses an
edit that changes one, unless a switch in another section permits it.
"""

from django.conf import settings
from django.utils.module_loading import import_string

from config import sections
from config.errors import FileOnlySetting
from config.sections import Config


def check_unchanged(before: Config, after: Config) -> None:
    """Raise `FileOnlySetting` if an edit changes a file-only value."""
    if _may_change_commands(before):
        return
    for key, section in sections.registered_sections().items():
        if section.file_only is None:
            continue
        old, new = (
            section.file_only(before.get(section)),
            section.file_only(after.get(section)),
        )
        changed = [name for name in {**old, **new} if old.get(name) != new.get(name)]
        if changed:
            raise FileOnlySetting(_denial_message(key, section.noun, changed[0]))


def _may_change_commands(config: Config) -> bool:
    path = settings.COULISSE_MAY_CHANGE_COMMANDS
    return bool(path) and bool(import_string(path)(config))


def _denial_message(key: str, noun: str, name: str) -> str:
    subject = f"{noun} '{name}'" if noun else f"'{key}.{name}'"
    return (
        f"{subject}: commands on this machine can be changed only in the file; "
        "edit the file, or set studio: {allow_commands: true} in it"
    )
