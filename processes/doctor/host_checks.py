"""The checks of the machine: the YAML, the state directory, open files."""

import os
import resource
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

from django.conf import settings
from django.core import checks
from django.template.defaultfilters import filesizeformat

from config import live
from config.config import SERVER
from config.errors import ConfigInvalid
from config.loading import reader, resolution
from config.sections import Config
from config.validation.suggestions import did_you_mean
from processes import sidecars
from processes.sidecar_control import sidecar_process
from processes.supervision import state_directory
from processes.web import OTHER_DESCRIPTORS
from providers.registry import LOCAL_MODEL_URL
from telemetry.log_output import formatters
from triggers.scheduling import server_start_id

LOW_BYTES = 1024**3
CRITICAL_BYTES = 100 * 1024**2
TEST_BYTES = 64 * 1024
SET_BY_THE_SERVER = (
    formatters.PROCESS_VARIABLE,
    LOCAL_MODEL_URL,
    server_start_id.VARIABLE,
    sidecar_process.NAME,
    sidecars.URL_VARIABLE,
)
WRITABLE = "make it writable for the server's account, or move the YAML"


def check_configuration(_: Config | None) -> Iterator[checks.CheckMessage]:
    """Check what `coulisse check` does: the YAML, overrides and the installation."""
    path = Path(settings.COULISSE_CONFIG)
    shown = reader.display_path(path)
    try:
        config = live.read_effective(path, is_strict=False)
    except ConfigInvalid as exc:
        for problem in exc.problems:
            yield checks.Error(str(problem), hint=f"edit {shown}")
        return
    yield checks.Info(f"{shown} is valid")
    for each in config.rejected_overrides:
        yield checks.Warning(
            f"{resolution.rejected_label(each)} is not in use: {each.reason}",
            hint="edit it in the studio, or run `coulisse overrides reset`",
        )
    yield from (each for each in checks.run_checks() if each.level >= checks.WARNING)


def check_state_directory(_: Config | None) -> Iterator[checks.CheckMessage]:
    """Check the rights of `.coulisse/`, and write to it."""
    root = state_directory.current_state().root
    place = root if root.exists() else root.parent
    shown = state_directory.describe_path(root)
    try:
        with tempfile.TemporaryFile(dir=place) as file:
            file.write(bytes(TEST_BYTES))
            file.flush()
    except OSError as exc:
        yield checks.Error(f"{shown} cannot be written: {exc.strerror}", hint=WRITABLE)
        return
    free = shutil.disk_usage(place).free
    text = f"{shown} is writable, {filesizeformat(free)} free".replace("\xa0", " ")
    if free >= LOW_BYTES:
        yield checks.Info(text)
    else:
        level = checks.Error if free < CRITICAL_BYTES else checks.Warning
        yield level(text, hint="free space on the disk, or move the YAML to another")
    for path in (root, Path(settings.COULISSE_SECRETS_FILE)):
        if path.exists() and stat.S_IMODE(path.stat().st_mode) & 0o077:
            yield checks.Warning(
                f"{state_directory.describe_path(path)} is accessible to other users",
                hint=f"run `chmod go-rwx '{path}'`",
            )


def check_open_files(config: Config | None) -> Iterator[checks.CheckMessage]:
    """Check that the limit on open files suffices for `server.max_connections`."""
    if config is None:
        return
    connections = config.get(SERVER).max_connections
    required = 2 * connections + OTHER_DESCRIPTORS
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard == resource.RLIM_INFINITY or hard >= required:
        limit = "no limit" if hard == resource.RLIM_INFINITY else f"up to {hard:,}"
        yield checks.Info(f"{limit} for each process, which needs {required:,}")
    else:
        yield checks.Warning(
            f"a process may open {hard:,} files, but {connections:,} connections need "
            f"{required:,}",
            hint="raise the limit (`ulimit -Hn`, LimitNOFILE), or lower "
            "server.max_connections",
        )


def check_environment(config: Config | None) -> Iterator[checks.CheckMessage]:
    """Warn of variables that look like the server's, but that nothing reads."""
    known = {*settings.COULISSE_VARIABLES, *SET_BY_THE_SERVER}
    text = "" if config is None else config.content.decode("utf-8", "replace")
    unknown = [
        name
        for name in sorted(os.environ)
        if name.startswith("COULISSE_")
        and name.removesuffix("_FILE") not in known
        and f"${{{name.removesuffix('_FILE')}" not in text
    ]
    for name in unknown:
        yield checks.Warning(
            f"{name} is set, but nothing reads it{did_you_mean(name, known)}",
            hint="correct or remove it; docs/running.md has a table of variables",
        )
    if not unknown:
        yield checks.Info("all variables that begin with COULISSE_ are known")
