"""The configuration this process runs with, and the thread that keeps it fresh."""

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace as with_changes
from pathlib import Path
from typing import Protocol

import watchfiles
from django.conf import settings
from django.utils.module_loading import import_string

from config import sections
from config.errors import ConfigInvalid
from config.loading import config_diff, last_valid_copy, loader, reader, resolution
from config.overlays import NO_OVERLAYS, Overlays
from config.sections import Config, RejectedOverride

logger = logging.getLogger(__name__)

POLL_SECONDS = 0.5
"""How long an edit goes unseen that nothing reports: most in the studio are such."""

_current: Config | None = None
_restart_keys: tuple[str, ...] = ()
"""Sections whose edits take a restart."""
_file_error: ConfigInvalid | None = None
"""Why what the file says now is not in force."""
_lock = threading.RLock()
"""Of two that make a new configuration, of the same old one or of none, one waits."""


class OverrideStore(Protocol):
    """What the studio says, in the database; `settings.COULISSE_OVERLAYS` names it.

    Both return None while the database does not answer, and raise nothing for that.
    """

    def newest_version(self) -> int | None:
        """Return the version of what is stored."""

    def read(self) -> Overlays | None:
        """Return what is stored."""

    def read_in_thread(self) -> Overlays | None:
        """Return what is stored; whoever asks may run an event loop."""

    def close(self) -> None:
        """Let go of this thread's connection."""


def get_store() -> OverrideStore | None:
    """Return what reads the studio's database, if this project has one."""
    path = settings.COULISSE_OVERLAYS
    found: OverrideStore | None = import_string(path) if path else None
    return found


def current() -> Config:
    """Return the configuration in force; raises `ConfigInvalid` if none ever was."""
    config = _current
    return config if config is not None else _load_current()


def current_or_none() -> Config | None:
    """Return the configuration in force, if any; reads nothing and waits for nobody."""
    return _current


def _load_current() -> Config:
    with _lock:
        config = _current
        if config is None:
            config = read_effective(Path(settings.COULISSE_CONFIG))
            set_current(config)
    return config


def read_effective(path: Path, *, insists: bool = True) -> Config:
    """Return what a server would run with this file now; raises `ConfigInvalid`.

    For commands: with what the studio says, where the database is there to tell. What
    of that the file does not fit is set aside where `insists` is false.
    """
    return resolution.resolve(
        reader.read_file(path), path, _read_overlays(), insists=insists
    )


def _read_overlays() -> Overlays:
    store = get_store()
    found = store.read_in_thread() if store else NO_OVERLAYS
    if found is None:
        logger.warning(
            "the database does not answer: until it does the YAML runs without what "
            "the studio says"
        )
        return NO_OVERLAYS
    return found


def load_at_start() -> Config:
    """Put the file in force or, where it is not valid now, what was valid last.

    A process that is started again serves on like those that were not. Raises
    `ConfigInvalid` when nothing was ever valid; what the studio says stops no start.
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
        # There may be nothing wrong with it but what the studio says.
        return resolution.resolve(reader.read_file(path), path, overlays, insists=False)
    config = resolution.resolve(last, path, overlays, insists=False)
    logger.error(
        "%s is not valid; what was valid last is in force:\n%s",
        reader.display_path(path),
        exc,
        extra={"has_lines": True},
    )
    return config


def apply_overrides() -> bool:
    """Put what the studio says by now over the file in force.

    Whoever changes it calls this, once it is stored; other processes look themselves.
    Returns whether the database answered.
    """
    store = get_store()
    with _lock:
        old = current()
        overlays = store.read() if store else None
        # One that was made by hand is of no file.
        if overlays is not None and overlays != old.overlays and old.content:
            _apply_overlays(old, overlays)
    return overlays is not None


def _apply_overlays(old: Config, overlays: Overlays) -> None:
    new = resolution.apply_overlays(old.content, old.path, overlays, insists=False)
    told, restart = _activate(old, new)
    live = [change for key, change in told.items() if key not in restart]
    logger.info("from the studio: %s", "; ".join(live) or "nothing changed")


def _activate(old: Config, new: Config) -> tuple[dict[str, str], list[str]]:
    """Put a configuration in force; return what changed, and what takes a restart."""
    values = dict(new.values)
    told, restart = {}, []
    for key, section in sections.registered_sections().items():
        change = config_diff.describe_section_change(old, new, section)
        if change:
            told[key] = change
        if change and section.applies == "restart":
            values[key] = old.get(section)
            restart.append(key)
    _log_rejected(old.rejected_overrides, new)
    set_current(with_changes(new, values=values))
    _set_pending_restart(restart)
    return told, restart


def pending_restart() -> tuple[str, ...]:
    """Return the sections that say something else than what runs until a restart."""
    return _restart_keys


def file_error() -> ConfigInvalid | None:
    """Return what is wrong with the file, where it says something else than what runs.

    What the watcher found; a process without one does not know.
    """
    return _file_error


def _set_pending_restart(keys: Sequence[str]) -> None:
    global _restart_keys
    _restart_keys = tuple(keys)


def _log_rejected(before: Sequence[RejectedOverride], config: Config) -> None:
    for each in config.rejected_overrides:
        if each not in before:
            logger.warning(
                "%s is set aside, so what the file says runs: %s",
                resolution.rejected_label(each),
                each.problems[0].message,
            )


def set_current(config: Config | None) -> None:
    """Put a configuration in force; None makes the next reader load the file."""
    global _current, _file_error
    with _lock:
        _current, _file_error = config, None


class ConfigWatcher:
    """Puts each valid edit of the file in force, from a thread of its own.

    It watches the directory: editors and ConfigMaps replace the file rather than
    write to it. What counts is the content, so every way of changing it works. What
    other processes changed in the studio it takes from the database.
    """

    def __init__(
        self, told: Callable[[Config, Sequence[str]], None] | None = None
    ) -> None:
        """Watch the file in force; `told` hears of each edit, and which sections."""
        config = current()
        # Also where the process goes to another directory.
        self.path = config.path.absolute()
        self._on_change = told
        self._store = get_store()
        self._version = config.overlays.version
        """Of what the studio said when it was last looked at."""
        self._handled_digest = config.digest
        """The content last put in force or complained about."""
        self._suspect_digest = ""
        """Invalid content seen once."""
        self._last_logged = ("", "")
        """Invalid content, and what was told of it last."""
        self._stop = threading.Event()
        self._thread = threading.Thread(
            target=self._run, name="config-watcher", daemon=True
        )

    def start(self) -> None:
        """Begin to watch."""
        # It reports every change in the directory, whoever's file it is.
        logging.getLogger("watchfiles").setLevel(logging.WARNING)
        self._thread.start()

    def stop(self) -> None:
        """End the thread, and wait for it."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        for _ in self._wait_for_changes():
            self.poll()
        if self._store is not None:
            self._store.close()

    def _wait_for_changes(self) -> Iterator[object]:
        """Yield when something in the directory changed, or enough time went by."""
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
            logger.warning("watching by polling only: %s", exc)
        while not self._stop.wait(POLL_SECONDS):
            yield None

    def poll(self) -> None:
        """Take what the studio and the file say now, where that is new and valid."""
        self._poll_studio()
        with _lock:
            self._poll_file()

    def _poll_studio(self) -> None:
        newest = self._store.newest_version() if self._store else None
        config = current_or_none()
        if newest is None or newest == self._version or config is None:
            return
        try:
            if not apply_overrides():
                return
        except Exception:
            logger.exception("could not judge what the studio says")
        self._version = newest
        if self._handled_digest != config.digest:
            # What the file was refused for may be gone.
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
        except ConfigInvalid as exc:
            self._reject(digest, exc)
        except Exception:
            # A fault in one section's check must not end the watch.
            self._handled_digest = digest
            logger.exception("could not judge %s", reader.display_path(self.path))

    def _reject(self, content: str, exc: ConfigInvalid) -> None:
        global _file_error
        if content == self._handled_digest:
            return
        if content != self._suspect_digest:
            # An editor may be half-way through writing; judge it if it stays so.
            self._suspect_digest = content
            return
        self._handled_digest = content
        _file_error = exc
        complaint = (content, str(exc))
        if complaint == self._last_logged:
            return
        self._last_logged = complaint
        logger.error(
            "%s is not valid; the old configuration stays in force:\n%s",
            reader.display_path(self.path),
            exc,
            extra={"has_lines": True},
        )

    def _apply(self, config: Config) -> None:
        self._last_logged = ("", "")
        told, restart = _activate(current(), config)
        live = [change for key, change in told.items() if key not in restart]
        file = reader.display_path(self.path)
        logger.info("%s reloaded: %s", file, "; ".join(live) or "nothing changed")
        if restart:
            logger.warning("restart to apply what changed in %s", ", ".join(restart))
        if told and self._on_change is not None:
            self._on_change(config, list(told))
