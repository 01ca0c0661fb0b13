"""The configuration of this process, and the thread that keeps it current."""

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace as with_changes
from pathlib import Path
from typing import Any

import watchfiles
from django.conf import settings
from django.utils.module_loading import import_string

from config import sections
from config.errors import ConfigInvalid
from config.loading import config_diff, last_valid_copy, loader, reader, resolution
from config.loading.overlays import NO_OVERLAYS, Overlays
from config.overrides.change_notices import ChangeNotices
from config.sections import Config, RejectedOverride

logger = logging.getLogger(__name__)

POLL_SECONDS = 0.5
"""Longest delay for edits without a file event, such as most studio edits."""

_current: Config | None = None
_restart_keys: tuple[str, ...] = ()
"""Sections with changes that wait for a restart."""
_file_error: ConfigInvalid | None = None
"""Why the current file content is not in force."""
_override_error: ConfigInvalid | None = None
"""Why the studio's current overrides are not in force."""
_lock = threading.RLock()
"""Serializes the creation of a new configuration, also of the first one."""


def get_store() -> Any:
    """Return the `DatabaseStore` of the studio's overrides; None if none is configured.

    Named by a setting, because this module is imported before the models are.
    """
    path = settings.COULISSE_OVERLAYS
    return import_string(path) if path else None


def current() -> Config:
    """Return the configuration in force; raises `ConfigInvalid` if none ever was."""
    config = _current
    return config if config is not None else _load_current()


def current_or_none() -> Config | None:
    """Return the configuration in force, or None; never reads the file or blocks."""
    return _current


def file_digest() -> str:
    """Return the digest of the file content in force, without overrides.

    It is the same in all processes with the same file, unless one rejects an override
    that others apply. It is "" before the first configuration.
    """
    config = _current
    error = str(_override_error or "")
    if config is None or not (config.rejected_overrides or error):
        return "" if config is None else config.digest
    rejected = sorted((each.section, each.name) for each in config.rejected_overrides)
    return loader.content_digest(f"{config.digest} {rejected}{error}".encode())


def _load_current() -> Config:
    with _lock:
        config = _current
        if config is None:
            config = read_effective(Path(settings.COULISSE_CONFIG))
            set_current(config)
    return config


def read_effective(path: Path, *, is_strict: bool = True) -> Config:
    """Return the configuration a server would run with; raises `ConfigInvalid`.

    For commands. Includes the studio's overrides if the database is available. With
    `is_strict` false, overrides that conflict with the file are rejected; otherwise the
    conflict is an error.
    """
    return resolution.resolve(
        reader.read_file(path), path, _read_overlays(), is_strict=is_strict
    )


def _read_overlays() -> Overlays:
    store = get_store()
    found: Overlays | None = store.read_in_thread() if store else NO_OVERLAYS
    if found is None:
        logger.warning(
            "database unavailable; the YAML file applies without the studio's "
            "overrides until the database answers"
        )
        return NO_OVERLAYS
    return found


def load_at_start() -> Config:
    """Activate the file or, if it is invalid, the last valid content.

    A restarted process continues like one that kept running. Raises `ConfigInvalid` if
    no content was ever valid. Of the studio's overrides, only those of sections that
    fail closed prevent a start.
    """
    if _current is not None:
        return _current
    path = Path(settings.COULISSE_CONFIG)
    overlays = _read_overlays()
    try:
        content = reader.read_file(path)
        config = resolution.resolve(content, path, overlays)
        last_valid_copy.write_copy(content)
    except ConfigInvalid as exc:
        config = _load_last_valid(path, overlays, exc)
    _log_rejected((), config)
    set_current(config)
    return config


def _load_last_valid(path: Path, overlays: Overlays, exc: ConfigInvalid) -> Config:
    last = last_valid_copy.read_copy()
    if last is None:
        # The only problem may be the studio's overrides.
        content = reader.read_file(path)
        config = resolution.resolve(content, path, overlays, is_strict=False)
        return resolution.fail_closed(config)
    config = resolution.resolve(last, path, overlays, is_strict=False)
    resolution.fail_closed(config)
    logger.error(
        "%s is invalid; its last valid content stays in force:\n%s",
        reader.display_path(path),
        exc,
        extra={"has_lines": True},
    )
    return config


def apply_overrides() -> bool:
    """Apply the stored overrides to the file in force.

    Writers call this after they store a change; other processes poll for it. Overrides
    without which the server must not run leave the previous configuration in force.
    Returns whether the database answered.
    """
    store = get_store()
    with _lock:
        old = current()
        overlays = store.read() if store else None
        # A configuration built in code has no file content.
        if overlays is not None and old.content:
            _apply_overlays(old, overlays)
    return overlays is not None


def _apply_overlays(old: Config, overlays: Overlays) -> None:
    global _override_error
    if overlays == old.overlays:
        _override_error = None
        return
    new = resolution.apply_overlays(old.content, old.path, overlays, is_strict=False)
    try:
        resolution.fail_closed(new)
    except ConfigInvalid as exc:
        if str(exc) != str(_override_error or ""):
            logger.error(
                "the studio's overrides are invalid; the previous configuration stays "
                "in force:\n%s",
                exc,
                extra={"has_lines": True},
            )
        _override_error = exc
        return
    _override_error = None
    _activate(old, new, "overrides applied")


def _activate(old: Config, new: Config, event: str) -> tuple[dict[str, str], list[str]]:
    """Activate a configuration, and log the event with what changed.

    Returns the changes, and the keys that need a restart.
    """
    values = dict(new.values)
    changes, restart = {}, []
    for key, section in sections.registered_sections().items():
        change = config_diff.describe_section_change(old, new, section)
        if change:
            changes[key] = change
        if change and section.applies == "restart":
            values[key] = old.get(section)
            restart.append(key)
    _log_rejected(old.rejected_overrides, new)
    set_current(with_changes(new, values=values))
    global _restart_keys
    _restart_keys = tuple(restart)
    live = [change for key, change in changes.items() if key not in restart]
    logger.info("%s: %s", event, "; ".join(live) or "nothing changed")
    return changes, restart


def pending_restart() -> tuple[str, ...]:
    """Return the sections whose changes wait for a restart."""
    return _restart_keys


def file_error() -> ConfigInvalid | None:
    """Return the error of a file whose current content is not in force.

    Set by the watcher; always None in a process without one.
    """
    return _file_error


def override_error() -> ConfigInvalid | None:
    """Return why the studio's current overrides are not in force, or None."""
    return _override_error


def _log_rejected(before: Sequence[RejectedOverride], config: Config) -> None:
    for each in config.rejected_overrides:
        if each not in before:
            logger.warning(
                "%s is rejected; the file's value applies: %s",
                resolution.rejected_label(each),
                each.problems[0].message,
            )


def set_current(config: Config | None) -> None:
    """Set the configuration in force; None makes the next reader load the file."""
    global _current, _file_error, _override_error
    with _lock:
        _current, _file_error = config, None
        if config is None:
            _override_error = None
        for path in settings.COULISSE_CONFIG_LISTENERS if config is not None else ():
            import_string(path)(config)


class ConfigWatcher:
    """Applies each valid edit of the file, in its own thread.

    Watches the directory, because editors and ConfigMaps replace the file instead of
    writing to it. It compares contents, so every kind of change works. It reads changes
    that other processes make in the studio from the database.
    """

    def __init__(
        self, on_change: Callable[[Config, Sequence[str]], None] | None = None
    ) -> None:
        """Watch the file; the callback receives each edit and its section keys."""
        config = current()
        # Stays correct after the process changes its directory.
        self.path = config.path.absolute()
        self._on_change = on_change
        self._store = get_store()
        self._notices = ChangeNotices()
        self._version = config.overlays.version
        """The version of the overrides at the last poll."""
        self._handled_digest = config.digest
        """The content last applied or reported as invalid."""
        self._suspect_digest = ""
        """Invalid content seen in one poll only."""
        self._last_logged = ("", "")
        """Invalid content and the last message logged about it."""
        self._stop = threading.Event()
        self._thread = threading.Thread(
            target=self._run, name="config-watcher", daemon=True
        )

    def start(self) -> None:
        # The event covers every file in the directory.
        logging.getLogger("watchfiles").setLevel(logging.WARNING)
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread and wait for it."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        for _ in self._wait_for_changes():
            self.poll()
        self._notices.close()
        if self._store is not None:
            self._store.close()

    def _wait_for_changes(self) -> Iterator[object]:
        """Yield after a change in the directory or after the poll interval."""
        try:
            yield from watchfiles.watch(
                self.path.parent,
                watch_filter=None,
                debounce=200,
                stop_event=self._stop,
                rust_timeout=int(POLL_SECONDS * 1000),
                yield_on_timeout=True,
                raise_interrupt=False,
                recursive=False,
            )
        except OSError as exc:  # no inotify watches left, or the directory is gone
            logger.warning("no file events, so the file is polled: %s", exc)
        while not self._stop.wait(POLL_SECONDS):
            yield None

    def poll(self) -> None:
        """Apply the current overrides and file if they are new and valid."""
        self._poll_studio()
        with _lock:
            self._poll_file()

    def _poll_studio(self) -> None:
        if self._store is None or not self._notices.is_question_due():
            return
        newest = self._store.newest_version()
        config = current_or_none()
        if newest is None or newest == self._version or config is None:
            return
        try:
            if not apply_overrides():
                return
        except Exception:
            logger.exception("could not validate the studio's overrides")
        self._version = newest
        if self._handled_digest != config.digest:
            # The reason for rejecting the file may be gone.
            self._handled_digest = ""

    def _poll_file(self) -> None:
        try:
            content = reader.read_file(self.path)
        except ConfigInvalid as exc:
            self._reject(str(exc), exc)
            return
        digest = loader.content_digest(content)
        if digest == self._handled_digest:
            return
        try:
            self._apply(resolution.resolve(content, self.path, current().overlays))
            self._handled_digest = digest
            last_valid_copy.write_copy(content)
            if _override_error is not None:
                # The edit may have removed the cause.
                apply_overrides()
        except ConfigInvalid as exc:
            self._reject(digest, exc)
        except Exception:
            # A fault in one section's check must not end the watch.
            self._handled_digest = digest
            logger.exception("could not validate %s", reader.display_path(self.path))

    def _reject(self, content: str, exc: ConfigInvalid) -> None:
        global _file_error
        if content == self._handled_digest:
            return
        if content != self._suspect_digest:
            # An editor may still be writing; validate the content if the next poll sees
            # it again.
            self._suspect_digest = content
            return
        self._handled_digest = content
        _file_error = exc
        logged = (content, str(exc))
        if logged == self._last_logged:
            return
        self._last_logged = logged
        logger.error(
            "%s is invalid; the previous configuration stays in force:\n%s",
            reader.display_path(self.path),
            exc,
            extra={"has_lines": True},
        )

    def _apply(self, config: Config) -> None:
        self._last_logged = ("", "")
        event = f"{reader.display_path(self.path)} reloaded"
        changes, restart = _activate(current(), config, event)
        if restart:
            logger.warning("restart to apply the changes in %s", ", ".join(restart))
        if changes and self._on_change is not None:
            self._on_change(config, list(changes))
