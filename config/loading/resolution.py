"""Resolve the effective configuration: the file with the studio's overrides.

The file must be valid alone, so that the server works without the database. An override
that conflicts with the file is rejected; an edit of the file that conflicts with the
overrides is refused, because its author can read the error.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from config import errors, sections
from config.errors import ConfigInvalid
from config.loading import loader, overlay_merge
from config.loading.overlays import Overlay, Overlays
from config.sections import Config, Problem, RejectedOverride, Section


def resolve(
    content: bytes, path: Path, overlays: Overlays, *, is_strict: bool = True
) -> Config:
    """Return the effective configuration of a file's content; raises `ConfigInvalid`.

    With `is_strict` false, overrides that make the file invalid are rejected, too.
    """
    alone = loader.parse_config(content, path)
    if not overlays.entries:
        return replace(alone, overlays=overlays)
    return apply_overlays(content, path, overlays, is_strict=is_strict)


def apply_overlays(
    content: bytes, path: Path, overlays: Overlays, *, is_strict: bool = True
) -> Config:
    """Return the effective configuration of a valid content, as `resolve` does."""
    rejected = [
        rejection
        for each in overlays.entries
        if (rejection := _reject_if_unreadable(each))
    ]
    rejected_names = {(each.section, each.name) for each in rejected}
    active = [o for o in overlays.entries if (o.section, o.name) not in rejected_names]
    while True:
        try:
            config = loader.parse_config(content, path, active)
        except ConfigInvalid as exc:
            broken = list(_broken_overrides(exc.problems, active))
            if not broken:
                broken = list(
                    _conflicting_overrides(content, path, active, exc.problems)
                )
                if is_strict or not broken:
                    raise _conflict_error(exc, broken) from None
            count = len(rejected)
            rejected += [replace(each, rejected_before=count) for each in broken]
            rejected_names = {(each.section, each.name) for each in broken}
            active = [o for o in active if (o.section, o.name) not in rejected_names]
        else:
            return replace(
                config, overlays=overlays, rejected_overrides=tuple(rejected)
            )


def overridable_sections() -> dict[str, Section[Any]]:
    """Return the sections whose entries the studio may override, by key."""
    found = sections.registered_sections()
    return {key: section for key, section in found.items() if section.is_overridable}


def rejected_label(rejected: RejectedOverride) -> str:
    section = overridable_sections().get(rejected.section)
    if section is None:
        return f"'{rejected.name}' under '{rejected.section}' in the studio"
    return overlay_merge.override_label(section, rejected.name)


def _reject_if_unreadable(overlay: Overlay) -> RejectedOverride | None:
    section = overridable_sections().get(overlay.section)
    if section is None:
        message = f"'{overlay.section}' cannot be changed in the studio"
        problem = Problem((), message, errors.UNKNOWN_KEY)
        return RejectedOverride(overlay.section, overlay.name, (problem,))
    if overlay.body is None:
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
    overridable = overridable_sections()
    for overlay in active:
        file = overlay_merge.override_label(overridable[overlay.section], overlay.name)
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
        loader.parse_config(content, path, active)
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
    overridable = overridable_sections()
    changes = ", ".join(
        f"{overridable[each.section].noun} '{each.name}' is "
        f"{'disabled' if each.is_tombstone else 'changed'} there"
        for each in conflicts
    )
    command = f"overrides reset {conflicts[0].section} {conflicts[0].name}"
    message = (
        f"the file is valid, but conflicts with overrides from the studio: {changes}; "
        f"`coulisse {command}` removes the override"
    )
    return ConfigInvalid([*problems, Problem((), message, errors.CONFLICTING_OVERRIDE)])
