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
from config.overlays import NONE, Overlays
from config.sections import Config, SetAside

logger = logging.getLogger(__name__)

POLL_SECONDS = 0.5
"""How long an edit goes unseen that nothing reports: most in the studio are such."""

_current: Config | None = None
_awaiting: tuple[str, ...] = ()
"""Sections whose edits take a restart."""
_refused: ConfigInvalid | None = None
"""Why what the file says now is not in force."""
_adopting = threading.RLock()
"""Of two that make a new configuration, of the same old one or of none, one waits."""


class Stored(Protocol):
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


def stored() -> Stored | None:
    """Return what reads the studio's database, if this project has one."""
    path = settings.COULISSE_OVERLAYS
    found: Stored | None = import_string(path) if path else None
    return found


def current() -> Config:
    """Return the configuration in force; raises `ConfigInvalid` if none ever was."""
    config = _current
    return config if config is not None else _load()


def in_force() -> Config | None:
    """Return the configuration in force, if any; reads nothing and waits for nobody."""
    return _current


def _load() -> Config:
    with _adopting:
        config = _current
        if config is None:
            config = read(Path(settings.COULISSE_CONFIG))
            replace(config)
    return config


def read(path: Path, *, insists: bool = True) -> Config:
    """Return what a server would run with this file now; raises `ConfigInvalid`.

    For commands: with what the studio says, where the database is there to tell. What
    of that the file does not fit is set aside where `insists` is false.
    """
    return resolution.of(reader.read(path), path, _overlays(), insists=insists)


def _overlays() -> Overlays:
    store = stored()
    found = store.read_in_thread() if store else NONE
    if found is None:
        logger.warning(
            "the database does not answer: until it does the YAML runs without what "
            "the studio says"
        )
        return NONE
    return found


def start() -> Config:
    """Put the file in force or, where it is not valid now, what was valid last.

    A process that is started again serves on like those that were not. Raises
    `ConfigInvalid` when nothing was ever valid; what the studio says stops no start.
    """
    if _current is not None:
        return _current
    path = Path(settings.COULISSE_CONFIG)
    overlays = _overlays()
    try:
        content = reader.read(path)
        config = resolution.of(content, path, overlays)
        last_valid_copy.write(content)
    except ConfigInvalid as exc:
        config = _start_all_the_same(path, overlays, exc)
    _tell_set_aside((), config)
    replace(config)
    return config


def _start_all_the_same(path: Path, overlays: Overlays, exc: ConfigInvalid) -> Config:
    last = last_valid_copy.read()
    if last is None:
        # There may be nothing wrong with it but what the studio says.
        return resolution.of(reader.read(path), path, overlays, insists=False)
    config = resolution.of(last, path, overlays, insists=False)
    logger.error(
        "%s is not valid; what was valid last is in force:\n%s",
        reader.label(path),
        exc,
        extra={"has_lines": True},
    )
    return config


def adopt() -> bool:
    """Put what the studio says by now over the file in force.

    Whoever changes it calls this, once it is stored; other processes look themselves.
    Returns whether the database answered.
    """
    store = stored()
    with _adopting:
        old = current()
        overlays = store.read() if store else None
        # One that was made by hand is of no file.
        if overlays is not None and overlays != old.overlays and old.content:
            _lay_over(old, overlays)
    return overlays is not None


def _lay_over(old: Config, overlays: Overlays) -> None:
    new = resolution.over(old.content, old.path, overlays, insists=False)
    told, restart = _adopt(old, new)
    live = [change for key, change in told.items() if key not in restart]
    logger.info("from the studio: %s", "; ".join(live) or "nothing changed")


def _adopt(old: Config, new: Config) -> tuple[dict[str, str], list[str]]:
    """Put a configuration in force; return what changed, and what takes a restart."""
    values = dict(new.values)
    told, restart = {}, []
    for key, section in sections.registered().items():
        change = config_diff.between(old, new, section)
        if change:
            told[key] = change
        if change and section.applies == "restart":
            values[key] = old.get(section)
            restart.append(key)
    _tell_set_aside(old.rejected_overrides, new)
    replace(with_changes(new, values=values))
    _await_restart(restart)
    return told, restart


def awaiting_restart() -> tuple[str, ...]:
    """Return the sections that say something else than what runs until a restart."""
    return _awaiting


def refused() -> ConfigInvalid | None:
    """Return what is wrong with the file, where it says something else than what runs.

    What the watcher found; a process without one does not know.
    """
    return _refused


def _await_restart(keys: Sequence[str]) -> None:
    global _awaiting
    _awaiting = tuple(keys)


def _tell_set_aside(before: Sequence[SetAside], config: Config) -> None:
    for each in config.rejected_overrides:
        if each not in before:
            logger.warning(
                "%s is set aside, so what the file says runs: %s",
                resolution.label(each),
                each.problems[0].message,
            )


def replace(config: Config | None) -> None:
    """Put a configuration in force; None makes the next reader load the file."""
    global _current, _refused
    with _adopting:
        _current, _refused = config, None


class Watcher:
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
        self._store = stored()
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
        with _adopting:
            self._poll_file()

    def _poll_studio(self) -> None:
        newest = self._store.newest_version() if self._store else None
        config = in_force()
        if newest is None or newest == self._version or config is None:
            return
        try:
            if not adopt():
                return
        except Exception:
            logger.exception("could not judge what the studio says")
        self._version = newest
        if self._handled_digest != config.digest:
            # What the file was refused for may be gone.
            self._handled_digest = ""

    def _poll_file(self) -> None:
        try:
            content = reader.read(self.path)
        except ConfigInvalid as exc:
            self._reject(str(exc), exc)
            return
        digest = loader.digest(content)
        if digest == self._handled_digest:
            return
        try:
            self._apply(resolution.of(content, self.path, current().overlays))
            self._handled_digest = digest
            last_valid_copy.write(content)
        except ConfigInvalid as exc:
            self._reject(digest, exc)
        except Exception:
            # A fault in one section's check must not end the watch.
            self._handled_digest = digest
            logger.exception("could not judge %s", reader.label(self.path))

    def _reject(self, content: str, exc: ConfigInvalid) -> None:
        global _refused
        if content == self._handled_digest:
            return
        if content != self._suspect_digest:
            # An editor may be half-way through writing; judge it if it stays so.
            self._suspect_digest = content
            return
        self._handled_digest = content
        _refused = exc
        complaint = (content, str(exc))
        if complaint == self._last_logged:
            return
        self._last_logged = complaint
        logger.error(
            "%s is not valid; the old configuration stays in force:\n%s",
            reader.label(self.path),
            exc,
            extra={"has_lines": True},
        )

    def _apply(self, config: Config) -> None:
        self._last_logged = ("", "")
        told, restart = _adopt(current(), config)
        live = [change for key, change in told.items() if key not in restart]
        file = reader.label(self.path)
        logger.info("%s reloaded: %s", file, "; ".join(live) or "nothing changed")
        if restart:
            logger.warning("restart to apply what changed in %s", ", ".join(restart))
        if told and self._on_change is not None:
            self._on_change(config, list(told))
