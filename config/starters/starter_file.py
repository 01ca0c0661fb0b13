"""Choose and write a starter file, and read the comments and examples in them."""

import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Literal

from config.editing import blocks, document
from config.editing.document import Document
from config.errors import StarterRefused
from config.loading import reader
from core.runtime import atomic_write

Starter = Literal["anthropic", "demo", "local", "openai", "tour"]

TEMPLATES = Path(__file__).parent


def choose_starter(environment: Mapping[str, str]) -> Starter:
    """Return the starter whose provider has a key in the environment."""
    if environment.get("ANTHROPIC_API_KEY"):
        return "anthropic"
    if environment.get("OPENAI_API_KEY"):
        return "openai"
    return "local"


def write_starter(starter: Starter, path: Path, *, force: bool = False) -> None:
    """Write a starter file, as `write_content` does."""
    content = (TEMPLATES / f"{starter}.yaml").read_bytes()
    write_content(content, path, force=force)


def check_new(path: Path, *, force: bool = False) -> Path:
    """Return the path of a file to write, behind symbolic links.

    Raises `StarterRefused` if it exists, unless `force` is set.
    """
    shown = reader.display_path(path)
    if path.is_dir():
        raise StarterRefused(f"{shown} is a directory; name a file")
    if path.exists() and not force:
        raise StarterRefused(f"{shown} already exists; pass --force to overwrite it")
    target = path.resolve()
    if not target.parent.is_dir():
        raise StarterRefused(
            f"directory {target.parent} does not exist; create it first"
        )
    return target


def write_content(content: bytes, path: Path, *, force: bool = False) -> None:
    """Write a new file atomically, as `check_new` allows; raises `StarterRefused`."""
    target = check_new(path, force=force)
    try:
        # The default mode is for secrets; a new file holds none.
        atomic_write.write_file(target, content, mode=0o644)
    except OSError as exc:
        shown = reader.display_path(path)
        raise StarterRefused(f"cannot write {shown}: {exc.strerror}") from exc


def comments_above(key: str) -> set[str]:
    """Return the comments right above a top-level key in starters, as whole lines."""
    texts = [path.read_text() for path in TEMPLATES.glob("*.yaml")]
    above = re.compile(rf"(?:\A|\n\n)((?:#.*\n)+){re.escape(key)}:")
    return {match[1] for text in texts for match in above.finditer(text)}


@lru_cache(maxsize=1)
def _tour_document() -> Document:
    return document.parse_document((TEMPLATES / "tour.yaml").read_bytes(), "tour.yaml")


def example_of(key: str) -> str:
    """Return the tour's example of a key, with its comments; "" if there is none."""
    return blocks.text_at(_tour_document(), (key,))
