"""Messages about values that pydantic refuses."""

from pydantic import ValidationError

from core.text.sanitization import escape_and_truncate

MAX_ERRORS = 10


def describe_errors(exc: ValidationError) -> str:
    """Return the first errors in one line, each with its location."""
    errors = exc.errors(include_url=False, include_input=False)
    return "; ".join(
        f"{escape_and_truncate('.'.join(map(str, error['loc'])))}: "
        f"{escape_and_truncate(error['msg'])}"
        for error in errors[:MAX_ERRORS]
    )
