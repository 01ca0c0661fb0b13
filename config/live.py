"""The configuration this process runs with, and the thread that keeps it fresh."""

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace as with_changes
from pathlib import Path

import watchfiles
from django.conf import settings

from config import changes, kept, loader, reader, sections
from config.errors import ConfigInvalid
from config.sections import Config

logger = logging.getLogger(__name__)

POLL_SECONDS = 0.5
"""How long an edit goes unseen when the file system does not report it."""

_current: Config | None = None
_first_load = threading.Lock()


def current() -> Config:
    """Return the configuration in force; raises `ConfigInvalid` if none ever was."""
    config = _current
    return config if config is not None else _load()


def in_force() -> Config | None:
    """Return the configuration in force, if any; reads nothing and waits for nobody."""
    return _current


def _load() -> Config:
    with _first_load:
        config = _current
        if config is None:
            config = loader.load(Path(settings.COULISSE_CONFIG))
            replace(config)
    return config


def start() -> Config:
    """Put the file in force or, where it is not valid now, what was valid last.

    A process that is started again serves on like those that were not. Raises
    `ConfigInvalid` when nothing was ever valid.
    """
    if _current is not None:
        return _current
    path = Path(settings.COULISSE_CONFIG)
    try:
        content = reader.read(path)
        config = loader.parse(content, path)
        kept.write(content)
    except ConfigInvalid as exc:
        last = kept.read()
        if last is None:
            raise
        config = loader.parse(last, path)
        logger.error(
            "%s is not valid; what was valid last is in force:\n%s",
            reader.label(path),
            exc,
            extra={"has_lines": True},
        )
    replace(config)
    return config


def replace(config: Config | None) -> None:
    """Put a configuration in force; None makes the next reader load the file."""
    global _current
    _current = config


class Watcher:
    """Puts each valid edit of the file in force, from a thread of its own.

    It watches the directory: editors and ConfigMaps replace the file rather than
    write to it. What counts is the content, so every way of changing it works.
    """

    def __init__(
        self, told: Callable[[Config, Sequence[str]], None] | None = None
    ) -> None:
        """Watch the file in force; `told` hears of each edit, and which sections."""
        config = current()
        self.path = config.path
        self._told = told
        self._handled = config.digest
        """The content last put in force or complained about."""
        self._doubted = ""
        """Invalid content seen once."""
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
        for _ in self._occasions():
            self.look()

    def _occasions(self) -> Iterator[object]:
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

    def look(self) -> None:
        """Take the file as it is now, if it is new and valid."""
        try:
            content = reader.read(self.path)
        except ConfigInvalid as exc:
            self._refuse(str(exc), exc)
            return
        digest = loader.digest(content)
        if digest == self._handled:
            return
        try:
            self._adopt(loader.parse(content, self.path))
            self._handled = digest
            kept.write(content)
        except ConfigInvalid as exc:
            self._refuse(digest, exc)
        except Exception:
            # A fault in one section's check must not end the watch.
            self._handled = digest
            logger.exception("could not judge %s", reader.label(self.path))

    def _refuse(self, content: str, exc: ConfigInvalid) -> None:
        if content == self._handled:
            return
        if content != self._doubted:
            # An editor may be half-way through writing; judge it if it stays so.
            self._doubted = content
            return
        self._handled = content
        logger.error(
            "%s is not valid; the old configuration stays in force:\n%s",
            reader.label(self.path),
            exc,
            extra={"has_lines": True},
        )

    def _adopt(self, config: Config) -> None:
        old, values = current(), dict(config.values)
        told, restart, changed = [], [], []
        for key, section in sections.registered().items():
            change = changes.between(old, config, section)
            if change:
                changed.append(key)
            if change and section.applies == "restart":
                values[key] = old.get(section)
                restart.append(key)
            elif change:
                told.append(change)
        replace(with_changes(config, values=values))
        file = reader.label(self.path)
        logger.info("%s reloaded: %s", file, "; ".join(told) or "nothing changed")
        if restart:
            logger.warning("restart to apply what changed in %s", ", ".join(restart))
        if changed and self._told is not None:
            self._told(config, changed)
