"""The diagnostics of a turn as short texts, for the studio and the terminal."""

from collections.abc import Iterator

from telemetry.types import Diagnostics

PATHS = {
    "none": "none",
    "words": "by words",
    "vectors": "by vectors",
    "both": "by words and vectors",
}
CORPORA = {
    "small": "compared one by one",
    "large": "index in memory",
    "database": "index in the database",
}
PARTS = {
    "history": ("message", "messages"),
    "facts": ("fact", "facts"),
    "rules": ("rule", "rules"),
    "quotes": ("quoted message", "quoted messages"),
    "summaries": ("summary", "summaries"),
    "episodes": ("episode", "episodes"),
}
PHASES = {
    "embedding_seconds": "embedding",
    "database_seconds": "database",
    "prepare_seconds": "preparation",
    "first_event_seconds": "first event",
    "save_seconds": "saving",
}


def recall(found: Diagnostics) -> str:
    """Return how memories were searched: `by words and vectors (hash:1024), …`."""
    path = PATHS[found.recall]
    if found.embedder:
        path += f" ({found.embedder})"
    return ", ".join(filter(None, [path, CORPORA.get(found.corpus)]))


def prompt(found: Diagnostics) -> str:
    """Return what the prompt had of the database: `12 messages, 1 fact`."""
    counts = ((getattr(found, name), words) for name, words in PARTS.items())
    parts = [f"{count} {words[count != 1]}" for count, words in counts if count]
    return ", ".join(parts) or "nothing stored"


def phases(found: Diagnostics) -> str:
    """Return how long the parts of a turn took that took place."""
    return ", ".join(_phases(found))


def _phases(found: Diagnostics) -> Iterator[str]:
    for name, label in PHASES.items():
        seconds = getattr(found, name)
        if seconds is None:
            continue
        text = f"{label} {_milliseconds(seconds)}"
        if name == "database_seconds":
            text += f" ({_database_phases(found, seconds)})"
        yield text


def _database_phases(found: Diagnostics, seconds: float) -> str:
    read, limits = found.read_seconds or 0.0, found.limits_seconds or 0.0
    waited = max(seconds - read - limits, 0.0)
    shown = {"wait": waited, "read": read, "limits": limits}
    parts = [f"{label} {_milliseconds(each)}" for label, each in shown.items() if each]
    return ", ".join(parts)


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1000:.1f} ms"
