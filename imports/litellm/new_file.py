"""The new coulisse.yaml."""

import re
from io import StringIO
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from config.errors import ConfigInvalid
from config.loading import loader, reader
from config.starters import starter_file
from imports.errors import SourceUnreadable
from imports.litellm.source import Environment
from imports.report import Report

KIND = "files"
REFERENCE = re.compile(r"(?<!\$)\$\{[^}\n]*\}")
EXAMPLE = "https://example.com"
"""The value of unset variables in the check: it may be an address as well as a key."""


def write(
    data: dict[str, Any],
    environment: Environment,
    options: dict[str, Any],
    output: Path,
    report: Report,
) -> bool:
    """Check the file as the server does, and write it; return whether it is new.

    One with the same content stays. Raises `CoulisseError`.
    """
    content = _render(environment.resolve(data), options["source"].name)
    try:
        loader.parse_config(REFERENCE.sub(EXAMPLE, content).encode(), output)
    except ConfigInvalid as exc:
        raise SourceUnreadable(
            f"the settings of {options['source'].name} would not be valid here, so "
            f"nothing was written: {exc}"
        ) from exc
    report.count(KIND, read=1)
    path = output.absolute()
    is_new = not path.is_file() or path.read_bytes() != content.encode()
    report.count(KIND, **{"written" if is_new else "existing": 1})
    if is_new:
        starter_file.check_new(path, force=options["force"])
        if not report.is_dry_run:
            starter_file.write_content(content.encode(), path, force=options["force"])
    for note in environment.notes():
        report.note(note)
    report.note(f"then check the file: `coulisse check -c {reader.display_path(path)}`")
    return is_new


def _render(data: dict[str, Any], source: str) -> str:
    yaml = YAML()
    yaml.width = 100
    yaml.indent(mapping=2, sequence=4, offset=2)
    yaml.representer.ignore_aliases = lambda _: True
    text = StringIO()
    yaml.dump(data, text)
    return f"# Written by `import litellm` from {source}.\n\n{text.getvalue()}"
