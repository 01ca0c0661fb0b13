"""Errors of turns."""

from core.errors import Invalid, Unavailable, Upstream


class MessagesInvalid(Invalid):
    """The messages cannot be continued."""

    def __init__(self, message: str, *, param: str = "messages") -> None:
        super().__init__(message, param=param)


class ContextTooLong(Invalid):
    """The conversation that the client sends exceeds the agent's limit."""

    def __init__(self, tokens: int, agent: str, limit: int) -> None:
        super().__init__(
            f"the conversation has about {tokens:,} tokens with the instructions and "
            f"tools of agent '{agent}', whose 'context_tokens' is {limit:,}: send "
            "less, raise the limit, or set 'context_overflow: trim'",
            param="messages",
            code="context_length_exceeded",
        )


class SchemaInvalid(Invalid):
    """The JSON Schema of response_format is not valid."""

    def __init__(self, message: str) -> None:
        super().__init__(message, param="response_format", code="invalid_json_schema")


class SchemaChecksBusy(Unavailable):
    """Too many JSON Schemas are being checked. Try again in a few seconds."""

    code = "schema_checks_busy"
    retry_after_seconds = 5


class LanguageInvalid(Invalid):
    """The language tag is not valid."""

    def __init__(self, message: str) -> None:
        super().__init__(message, param="metadata.language")


class ReplyInvalid(Upstream):
    """The model's reply does not match the requested format."""

    code = "response_format_mismatch"
