"""Converts pydantic's validation errors to OpenAI's format."""

from typing import Any

from core.errors import Invalid
from core.text.sanitization import escape_and_truncate

UNION_BRANCHES = {
    "NamedFunction",
    "NamedTool",
    "assistant",
    "constrained-int",
    "developer",
    "document",
    "file",
    "function_call",
    "function_call_output",
    "image",
    "image_url",
    "input_audio",
    "input_file",
    "input_image",
    "input_text",
    "item_reference",
    "json_object",
    "json_schema",
    "message",
    "output_text",
    "reasoning",
    "redacted_thinking",
    "refusal",
    "search_result",
    "str",
    "system",
    "text",
    "thinking",
    "tool",
    "tool_result",
    "tool_use",
    "user",
}
"""Names of the branches of unions in requests, which pydantic adds to its paths."""
CHOICE_BRANCHES = {"allowed_tools", "function"}
"""Names of the branches of `tool_choice`; tools have a field `function`."""
UNION_FIELDS = {
    "accept",
    "content",
    "format",
    "input",
    "max_output_tokens",
    "output",
    "reject",
    "response_format",
    "stop",
    "system",
    "tool_choice",
    "truncation",
}
"""Fields that have several shapes."""

OBJECT_ERRORS = {"dict_type", "model_attributes_type", "model_type"}
"""Types of errors whose messages name classes of Python."""

MAX_MESSAGE_LENGTH = 300
"""Characters of pydantic's message, which may quote the client."""


def first_error(errors: list[dict[str, Any]]) -> Invalid:
    """Return pydantic's first error in OpenAI's format."""
    error = _closest_error(errors)
    param = _param_name(_path(error))
    if not param:
        return Invalid("The body must be a JSON object", code="invalid_json")
    match error["type"]:
        case "extra_forbidden":
            return Invalid(
                f"Unrecognized request argument supplied: {param}",
                param=param,
                code="unknown_parameter",
            )
        case "missing":
            return missing_parameter(param)
        case "union_tag_not_found":
            return missing_parameter(f"{param}.{_tag(error)}")
        case "union_tag_invalid":
            context = error["ctx"]
            return Invalid(
                f"Invalid '{param}.{_tag(error)}': "
                f"'{escape_and_truncate(str(context['tag']))}' is not one of "
                f"{context['expected_tags']}",
                param=f"{param}.{_tag(error)}",
            )
        case kind if kind in OBJECT_ERRORS:
            return Invalid(f"Invalid '{param}': must be an object", param=param)
    message = escape_and_truncate(error["msg"], MAX_MESSAGE_LENGTH)
    return Invalid(f"Invalid '{param}': {message}", param=param)


def missing_parameter(param: str) -> Invalid:
    """Return OpenAI's error for a parameter that the request leaves out."""
    return Invalid(
        f"Missing required parameter: '{param}'",
        param=param,
        code="missing_required_parameter",
    )


def _tag(error: dict[str, Any]) -> str:
    name = str(error["ctx"]["discriminator"]).strip("'")
    # A function reads the type of items that may leave it out.
    return "type" if name.endswith("()") else name


def _path(error: dict[str, Any]) -> list[str | int]:
    # ninja prepends the request part and, for a body, the view's argument.
    return list(error["loc"][1 if error["loc"][0] == "query" else 2 :])


def _closest_error(errors: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the first error; for a union, of the branch that matches best."""
    path = _path(errors[0])
    if len(path) < 2 or not _is_branch(path[-1], path[-2]):
        return errors[0]
    union = path[:-1]
    return max(
        (error for error in errors if _path(error)[: len(union)] == union),
        # A wrong type does not count as a step into its branch.
        key=lambda error: (len(error["loc"]), not error["type"].endswith("_type")),
    )


def _param_name(path: list[str | int]) -> str:
    param = ""
    for position, step in enumerate(path):
        if isinstance(step, int):
            param += f"[{step}]"
        elif position == 0 or not _is_branch(step, path[position - 1]):
            param += f".{step}" if param else step
    return escape_and_truncate(param)


def _is_branch(step: str | int, previous: str | int) -> bool:
    """Return whether a step names a union's branch, and so is not in the request."""
    if not isinstance(step, str):
        return False
    if step in CHOICE_BRANCHES and (
        previous == "tool_choice" or str(previous).startswith("tagged-union[")
    ):
        return True
    can_branch = isinstance(previous, int) or previous in UNION_FIELDS
    return can_branch and (step in UNION_BRANCHES or "[" in step)
