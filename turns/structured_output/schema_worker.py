"""Compiles clients' JSON Schemas and checks JSON against them, in a child process.

python -P -m turns.structured_output.schema_worker

A schema can take more memory than the machine has, and practically forever to check,
and a library call cannot be interrupted. A process can: it limits its own memory and
CPU time, and the parent kills it when it takes too long.

The first line of output is a JSON string, the reason why its memory is not limited, or
null. A request is a line with two lengths, followed by that many bytes of the schema
and of the value as JSON; the second length is 0 to compile the schema only. The
response is a line of JSON: the error of the schema and the error of the value, or null
for each.
"""

import resource
import sys
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

import jsonschema_rs
import orjson

from core.text.sanitization import escape_and_truncate_middle, truncate_middle

MAX_MEMORY_BYTES = 256 * 1024 * 1024
"""Maximum memory that requests add to that of the started process."""
MAX_CPU_SECONDS = 2
"""Maximum CPU time of one request."""
MAX_PATTERN_BYTES = 4 * 1024 * 1024
r"""Maximum size of a compiled pattern; `\p{L}{50}` takes two million."""
MAX_STATES_BYTES = 1024 * 1024
"""Memory that a pattern may use while it matches."""
MAX_BACKTRACKS = 100_000
"""The limit for patterns with look-around or back-references; others need none."""
MAX_ERROR_LENGTH = 400
"""Maximum characters of a mismatch, which the model reads to correct its reply. The
library quotes the value, whatever its size.
"""
MAX_VALIDATORS = 8

PATTERNS = jsonschema_rs.FancyRegexOptions(
    backtrack_limit=MAX_BACKTRACKS,
    size_limit=MAX_PATTERN_BYTES,
    dfa_size_limit=MAX_STATES_BYTES,
)


def compile_schema(schema: Any) -> Any:
    """Return a validator without network access; raises ValueError if invalid."""
    try:
        return jsonschema_rs.validator_for(
            schema, offline=True, pattern_options=PATTERNS
        )
    except jsonschema_rs.ValidationError as exc:
        raise ValueError(
            escape_and_truncate_middle(exc.message) + _pattern_hint(exc)
        ) from exc
    except (ValueError, TypeError) as exc:
        raise ValueError(escape_and_truncate_middle(str(exc))) from exc


def is_valid(validator: Any, value: Any) -> bool:
    """Whether a value is valid. Takes a fraction of the time of `first_error`."""
    try:
        return bool(validator.is_valid(value))
    except ValueError:  # The value is nested too deeply.
        return False


def first_error(validator: Any, value: Any) -> str | None:
    """Return the first mismatch and its location in one line, or None."""
    try:
        # A list of all errors could have millions, each with a copy of its value.
        validator.validate(value)
    except jsonschema_rs.ValidationError as exc:
        message = truncate_middle(exc.message, MAX_ERROR_LENGTH)
        path = "/".join(str(step) for step in exc.instance_path)
        return (
            f"{message} at '{truncate_middle(path, MAX_ERROR_LENGTH)}'"
            if path
            else message
        )
    except ValueError as exc:
        return f"the reply is nested too deeply: {exc}"
    return None


def _pattern_hint(exc: jsonschema_rs.ValidationError) -> str:
    """Return advice for a pattern that cannot be compiled."""
    if getattr(exc.kind, "format", "") != "regex":
        return ""
    return " (or one that is too large when compiled: repeat fewer times)"


@lru_cache(MAX_VALIDATORS)
def _build_validator(schema: bytes) -> Any:
    return compile_schema(orjson.loads(schema))


def check_request(schema: bytes, value: bytes) -> tuple[str | None, str | None]:
    """Return the error of a schema, and of a value if there is one."""
    try:
        validator = _build_validator(schema)
    except ValueError as exc:
        return str(exc), None
    return None, first_error(validator, orjson.loads(value)) if value else None


def limit_memory() -> str | None:
    """Limit this process's memory; return why that is not possible, or None."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except OSError:
        return "this system does not report the memory of a process"
    limit = pages * resource.getpagesize() + MAX_MEMORY_BYTES
    try:
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    except (OSError, ValueError) as exc:
        return str(exc)
    return None


def limit_cpu_time() -> None:
    """Limit further CPU time; the kernel kills the process beyond it."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    seconds = int(used.ru_utime + used.ru_stime) + 1 + MAX_CPU_SECONDS
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, hard))


def main() -> None:
    """Answer requests until the input ends."""
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    stdin, stdout = sys.stdin.buffer, sys.stdout.buffer
    response: Any = limit_memory()
    while True:
        stdout.write(orjson.dumps(response) + b"\n")
        stdout.flush()
        line = stdin.readline()
        if not line:
            return
        limit_cpu_time()
        schema, value = (stdin.read(int(length)) for length in line.split())
        response = check_request(schema, value)


if __name__ == "__main__":
    main()
