"""The check of the request log by `coulisse doctor`."""

import os
from collections.abc import Iterator

from django.core import checks

from config.sections import Config
from telemetry.config import TELEMETRY
from telemetry.request_log import writer


def check_request_log(config: Config | None) -> Iterator[checks.CheckMessage]:
    """Check that the file of the request log can be written."""
    if config is None:
        return
    request_log = config.get(TELEMETRY).request_log
    if not request_log.enabled or request_log.path == writer.STDERR:
        return
    path = writer.log_path(request_log)
    # A renamed file is replaced by a new one, so the directory must be writable, too.
    needed = [path.parent, *([path] if path.exists() else [])]
    if not all(os.access(each, os.W_OK) for each in needed):
        yield checks.Error(
            f"{path} cannot be written: its directory is missing, or not writable",
            hint="create it for the server's account, or change "
            "telemetry.request_log.path",
        )
    else:
        yield checks.Info(f"{path} is writable")
