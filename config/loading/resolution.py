"""Resolve the effective configuration: the file with the studio's overrides.

The file must be valid alone, so that the server works without the database. An override
that conflicts with the file is rejected; an edit of the file that conflicts with the
overrides is refused, because its author can read the error. A rejected
override of a section that `fails_closed` leaves no configuration: the file's value may
open access.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from config import errors, sections
from config.config import VARS
from config.editing import section_overlays
from config.errors import ConfigInvalid
from config.loading import file_only_settings, loader, overlay_merge, reader
from config.loading.overlays import Overlay, Overlays
from config.sections import Config, Problem, RejectedOverride, Section


def resolve(
    content: bytes, path: Path, overlays: Overlays, *, is_strict: bool = True
) -> Config:
    """Return the effective configuration of a file's content; raises `ConfigInvalid`.

    With `is_strict` false, overrides that make the file invalid are rejected, too, and
    so are those of sections that fail closed.
    """
    alone = loader.parse_config(content, path)
    if not overlays.entries:
        return replace(alone, overlays=overlays)
    config = apply_overlays(content, path, overlays, is_strict=is_strict)
    return fail_closed(config) if is_strict else config


def fail_closed(config: Config) -> Config:
    """Return a configuration that a server may run with; raises `ConfigInvalid`."""
    registered = sections.registered_sections()
    problems: list[Problem] = []
    for each in config.rejected_overrides:
        section = registered.get(each.section)
        if section is None or not section.fails_closed:
            continue
        message = (
            f"{rejected_label(each)} does not fit on this machine, and the file's "
            f"value does not replace it, because '{each.section}' protects access, "
            "limits or data; correct the cause, such as a variable that is not set "
            "here, or remove the override with "
            f"`coulisse overrides reset {each.section}`"
        )
        problems += [*each.problems, Problem((), message, errors.FAILS_CLOSED)]
    if problems:
        raise ConfigInvalid(problems)
    return config


def apply_overlays(
    content: bytes, path: Path, overlays: Overlays, *, is_strict: bool = True
) -> Config:
    """Return the effective configuration of a valid content, as `resolve` does."""
    rejected = _find_unreadable(content, path, overlays.entries)
    active = _without(overlays.entries, rejected)
    while True:
        config, broken = _try_overlays(content, path, active, is_strict=is_strict)
        if config is not None and not broken:
            return replace(
                config, overlays=overlays, rejected_overrides=tuple(rejected)
            )
        count = len(rejected)
        rejected += [replace(each, rejected_before=count) for each in broken]
        active = _without(active, broken)


def _without(
    overlays: Iterable[Overlay], rejected: Iterable[RejectedOverride]
) -> list[Overlay]:
    names = {(each.section, each.name) for each in rejected}
    return [o for o in overlays if (o.section, o.name) not in names]


def _try_overlays(
    content: bytes, path: Path, active: Sequence[Overlay], *, is_strict: bool
) -> tuple[Config | None, list[RejectedOverride]]:
    """Return the configuration with all overlays, or those that must be rejected."""
    try:
        config = _parse(content, path, active)
    except ConfigInvalid as exc:
        broken = list(_broken_overrides(exc.problems, active))
        if not broken:
            broken = list(_conflicting_overrides(content, path, active, exc.problems))
            if is_strict or not broken:
                raise _conflict_error(exc, broken) from None
        return None, broken
    return config, list(_overrides_of_commands(content, path, config, active))


def _parse(content: bytes, path: Path, overlays: Sequence[Overlay]) -> Config:
    """Return the configuration of a content with overlays; raises `ConfigInvalid`."""
    of_sections = section_overlays.overlays_of_sections(overlays)
    if not of_sections:
        return loader.parse_config(content, path, overlays)
    file = reader.display_path(path)
    merged = section_overlays.merge(content, of_sections, file)
    entries = [overlay for overlay in overlays if overlay not in of_sections]
    try:
        config = loader.parse_config(merged, path, entries)
    except ConfigInvalid as exc:
        raise ConfigInvalid(
            section_overlays.relocate_problems(
                exc.problems, merged, content, of_sections, file
            )
        ) from None
    return replace(config, content=content, digest=loader.content_digest(content))


def _overrides_of_commands(
    content: bytes, path: Path, config: Config, active: Sequence[Overlay]
) -> Iterator[RejectedOverride]:
    """Find the overlays that change what only the file may set.

    The studio refuses such edits; the file may have forbidden them since.
    """
    of_sections = section_overlays.overlays_of_sections(active)
    if not of_sections:
        return
    alone = loader.parse_config(content, path)
    for section, name in file_only_settings.find_changes(alone, config):
        own = [o for o in of_sections if (o.section, o.name) == (section.key, name)]
        # Whole sections, and variables in the value of another section.
        others = [o for o in of_sections if o.section in (section.key, VARS.key)]
        message = file_only_settings.denial_message(section, name)
        problem = Problem((), message, errors.FILE_ONLY)
        for overlay in own or others or of_sections:
            yield RejectedOverride(
                overlay.section, overlay.name, (problem,), overlay.body is None
            )
        return


def overridable_sections() -> dict[str, Section[Any]]:
    """Return the sections that the studio may override, by key."""
    found = sections.registered_sections()
    return {key: each for key, each in found.items() if not each.is_per_machine}


def override_label(key: str, name: str) -> str:
    """Return the label of an override in messages."""
    section = overridable_sections().get(key)
    if section is None:
        return f"'{name}' under '{key}' in the studio"
    if section.is_overridable:
        return overlay_merge.override_label(section, name)
    return section_overlays.label(key, name)


def rejected_label(rejected: RejectedOverride) -> str:
    return override_label(rejected.section, rejected.name)


def _find_unreadable(
    content: bytes, path: Path, overlays: Iterable[Overlay]
) -> list[RejectedOverride]:
    """Find the overlays whose text is invalid or has no place in the file."""
    found = [r for each in overlays if (r := _reject_if_unreadable(each))]
    of_sections = section_overlays.overlays_of_sections(_without(overlays, found))
    if _merge_error(content, path, of_sections):
        found += [
            RejectedOverride(each.section, each.name, exc.problems, each.body is None)
            for each in of_sections
            if (exc := _merge_error(content, path, [each]))
        ]
    return found


def _merge_error(
    content: bytes, path: Path, of_sections: list[Overlay]
) -> ConfigInvalid | None:
    try:
        section_overlays.merge(content, of_sections, reader.display_path(path))
    except ConfigInvalid as exc:
        return exc
    return None


def _reject_if_unreadable(overlay: Overlay) -> RejectedOverride | None:
    section = overridable_sections().get(overlay.section)
    if section is None:
        message = f"'{overlay.section}' cannot be changed in the studio"
        problem = Problem((), message, errors.UNKNOWN_KEY)
        return RejectedOverride(overlay.section, overlay.name, (problem,))
    if overlay.body is None or not section.is_overridable:
        return None
    try:
        overlay_merge.parse_entry(
            overlay.body, overlay_merge.override_label(section, overlay.name)
        )
    except ConfigInvalid as exc:
        return RejectedOverride(overlay.section, overlay.name, exc.problems)
    return None


def _broken_overrides(
    problems: Sequence[Problem], active: Iterable[Overlay]
) -> Iterable[RejectedOverride]:
    """Find the overlays that have problems of their own."""
    for overlay in active:
        file = override_label(overlay.section, overlay.name)
        own = [p for p in problems if p.position and p.position.file == file]
        if own:
            yield RejectedOverride(overlay.section, overlay.name, tuple(own))


def _conflicting_overrides(
    content: bytes, path: Path, active: Sequence[Overlay], problems: tuple[Problem, ...]
) -> Iterator[RejectedOverride]:
    """Find the overlays that cause the file's problems.

    Of several overlays that conflict only together, the last is returned.
    """
    compatible = set(
        _compatible_overlays(partial(_is_valid, content, path), (), active)
    )
    for overlay in active:
        if overlay not in compatible:
            yield RejectedOverride(
                overlay.section, overlay.name, problems, overlay.body is None
            )


def _compatible_overlays(
    is_valid: Callable[[Sequence[Overlay]], bool],
    compatible: Sequence[Overlay],
    candidates: Sequence[Overlay],
) -> Sequence[Overlay]:
    """Return the valid overlays, and those of the doubtful ones that fit with them.

    Most fit, so the search bisects: each try validates the whole file.
    """
    if len(candidates) < 2:
        return compatible
    half = len(candidates) // 2
    first, last = candidates[:half], candidates[half:]
    if is_valid([*compatible, *first]):
        return _compatible_overlays(is_valid, [*compatible, *first], last)
    compatible = _compatible_overlays(is_valid, compatible, first)
    both = [*compatible, *last]
    return both if is_valid(both) else _compatible_overlays(is_valid, compatible, last)


def _is_valid(content: bytes, path: Path, active: Sequence[Overlay]) -> bool:
    """Return whether a file is valid with overlays; the overlays may have problems."""
    try:
        _parse(content, path, active)
    except ConfigInvalid as exc:
        own = {
            problem
            for each in _broken_overrides(exc.problems, active)
            for problem in each.problems
        }
        return own.issuperset(exc.problems)
    return True


def _conflict_error(
    exc: ConfigInvalid, conflicts: Sequence[RejectedOverride]
) -> ConfigInvalid:
    problems = errors.limit_problems(exc.problems)
    if not conflicts:
        return ConfigInvalid(problems)
    changes = ", ".join(
        f"{rejected_label(each).removesuffix(' in the studio')} is "
        f"{'disabled' if each.is_tombstone else 'changed'} there"
        for each in conflicts
    )
    command = f"overrides reset {conflicts[0].section} {conflicts[0].name}"
    message = (
        f"the file is valid, but conflicts with overrides from the studio: {changes}; "
        f"`coulisse {command}` removes the override"
    )
    return ConfigInvalid([*problems, Problem((), message, errors.CONFLICTING_OVERRIDE)])
