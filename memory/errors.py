"""Errors of users and the facts about them."""

from core.errors import Conflict, Invalid, NotFound
from database.errors import TurnDiscarded


class FactUnknown(NotFound):
    """This user has no such fact."""

    code = "memory_not_found"


class UserUnknown(NotFound):
    """No such user. Names are not stored: use the id, or the exact name that clients \
send."""

    code = "user_not_found"


class UserErased(Conflict, TurnDiscarded):
    """The data of this user was erased meanwhile, so this turn is not stored."""

    code = "user_erased"


class ReplyUnknown(NotFound):
    """The reply that this one follows was deleted meanwhile: send the conversation \
again without it."""

    code = "reply_not_found"


class FactInvalid(Invalid):
    """The fact is invalid."""


class FactDecided(Conflict):
    """This fact is no longer pending review."""

    code = "memory_not_pending"


class LearningOff(Invalid):
    """The user has switched learning off: nothing is saved about them."""

    code = "learning_off"


class RecallOff(Invalid):
    """The user has switched recall off: agents cannot read what is stored about \
them."""

    code = "recall_off"


class KeyTaken(Invalid):
    """Another active fact of this user has this category and key."""

    code = "key_taken"


class ConfirmationInvalid(Invalid):
    """The confirmation is not the latest one, or was already used: send the request \
without one to get a new one."""

    def __init__(self) -> None:
        super().__init__(param="confirmation", code="confirmation_invalid")


class ConfirmationExpired(Invalid):
    """The confirmation has expired: send the request without one to get a new \
one."""

    def __init__(self) -> None:
        super().__init__(param="confirmation", code="confirmation_expired")


class ThreadUnknown(NotFound):
    """This user has no such thread."""

    code = "thread_not_found"


class SessionUnknown(NotFound):
    """This thread has had no session: one begins with a turn that may be remembered, \
if the agent has `memory.user_state` and `memory.sessions`."""

    code = "session_not_found"
