"""What can go wrong when a request says who it is for."""

from collections.abc import Sequence

from core.errors import Denied, Invalid, NotFound, Unauthenticated


class UserRequired(Invalid):
    """safety_identifier is required: it says whose conversation this is. Send it \
(or the older 'user'), or set 'default_user_id' or 'users: shared' in coulisse.yaml."""

    def __init__(self) -> None:
        super().__init__(param="safety_identifier", code="user_required")


class UserInvalid(Invalid):
    """The user identifier is not valid."""


class CredentialRequired(Unauthenticated):
    """This server asks for a credential: send your API key as \
`Authorization: Bearer KEY`."""


class CredentialRefused(Unauthenticated):
    """The credential is not valid: it is unknown, revoked or expired."""

    code = "invalid_api_key"


class IdentityRefused(Denied):
    """The request names another user than the one its credential stands for: leave \
safety_identifier out, or name that user."""

    code = "identity_mismatch"


class AgentRefused(Denied):
    """This API token may not call that agent."""

    code = "agent_not_allowed"


class TokenInvalid(Invalid):
    """This token cannot be made."""

    def __init__(self, message: str, param: str) -> None:
        super().__init__(message, param=param, code="token_invalid")


class TokenUnknown(NotFound):
    """There is no such token."""


class TokenAmbiguous(Invalid):
    """Several tokens begin with this id."""

    def __init__(self, id: str, candidates: Sequence[str]) -> None:
        super().__init__(
            f"several tokens begin with '{id:.80}', give more of the id: "
            + ", ".join(candidates),
            param="id",
        )
