"""Check JSON against JSON Schemas from strangers: `python -m turns.schema_check`.

A schema with references can take longer to check than the universe has time, and a
library in the middle of it cannot be stopped. So such schemas are checked by a child
process, which can: it reads lines `[schema, value]` and answers each with a line, the
error or null. It ends when nobody holds its input any more.
"""

import sys
from typing import Any

import jsonschema_rs
import orjson


def validator(schema: Any) -> Any:
    """Return a validator that fetches nothing; raises ValueError for a bad schema."""
    try:
        return jsonschema_rs.validator_for(schema, offline=True)
    except (jsonschema_rs.ValidationError, ValueError, TypeError) as exc:
        raise ValueError(exc.message if hasattr(exc, "message") else str(exc)) from exc


def first_error(checker: Any, value: Any) -> str | None:
    """Return what is wrong with a value and where, in one line, or None."""
    error = next(checker.iter_errors(value), None)
    if error is None:
        return None
    path = "/".join(str(step) for step in error.instance_path)
    return f"{error.message} at '{path}'" if path else str(error.message)


def main() -> None:
    """Answer lines until the input ends."""
    for line in sys.stdin.buffer:
        schema, value = orjson.loads(line)
        answer = orjson.dumps(first_error(validator(schema), value))
        sys.stdout.buffer.write(answer + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
