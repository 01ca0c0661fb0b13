"""Errors of ids that name no object of their user."""

from typing import ClassVar

from core.errors import NotFound
from core.text.sanitization import escape_and_truncate


class ObjectUnknown(NotFound):
    """This user has no such object."""

    noun: ClassVar[str]
    explanation: ClassVar[str] = ""
    """Why it may be missing, or what to do."""
    default_param: ClassVar[str | None] = None
    """The parameter that has the id."""

    def __init__(self, object_id: str, *, param: str | None = None) -> None:
        quoted = escape_and_truncate(object_id)
        super().__init__(
            f"{self.noun} with id '{quoted}' not found{self.explanation}.",
            param=param or self.default_param,
        )


class CompletionUnknown(ObjectUnknown):
    """This user has no such chat completion, or it was not made with `store: true`."""

    code = "completion_not_found"
    noun = "Chat completion"
    explanation = ": it was deleted, or made without `store: true`"


class ConversationUnknown(ObjectUnknown):
    """This user has no such conversation."""

    code = "conversation_not_found"
    noun = "Conversation"
    explanation = ": create it first"
    default_param = "conversation"


class ItemUnknown(ObjectUnknown):
    """This user, or the conversation, has no such item."""

    code = "item_not_found"
    noun = "Item"


class PreviousResponseUnknown(ObjectUnknown):
    """This user has no such response, or it was not stored."""

    code = "previous_response_not_found"
    noun = "Previous response"
    explanation = ": it was deleted, or made with `store: false`"
    default_param = "previous_response_id"


class ResponseUnknown(ObjectUnknown):
    """This user has no such response, or it was not stored."""

    code = "response_not_found"
    noun = "Response"
    explanation = ": it was deleted, or made with `store: false`"
